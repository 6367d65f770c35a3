// Charts carry their words in aria-label; this shows them beside the pointer.
(function () {
  const tip = document.getElementById("tip");
  function hide() { tip.hidden = true; }
  document.addEventListener("pointermove", function (event) {
    const mark = event.target.closest && event.target.closest("svg.picture [role='graphics-symbol'][aria-label]");
    if (!mark || mark.querySelector("g")) { hide(); return; }
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = event.clientY + 16 + "px";
  });
  document.addEventListener("pointerleave", hide);
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });
})();

// Names for parts of the theme that a screen reader could not tell apart.
document.querySelectorAll(".md-search[role=dialog]").forEach((part) => part.setAttribute("aria-label", "Search"));
document.querySelectorAll("nav.md-nav").forEach((part, number) => {
  const title = part.querySelector(":scope > .md-nav__title");
  part.removeAttribute("aria-labelledby");
  part.setAttribute("aria-label", `${title ? title.textContent.trim() : "Pages"}, list ${number + 1}`);
});

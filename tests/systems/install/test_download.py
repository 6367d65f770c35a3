"""How systems are got, with fake package managers."""

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from mqlab.systems import SystemFailedError
from mqlab.systems.install.download import (
    Archive,
    Debian,
    GoProgram,
    Jars,
    Java,
    Part,
    cache,
    install,
    missing,
    path_of,
)

# Does what Maven does with `dependency:copy` and `copy-dependencies`, as far as it is asked for here.
MAVEN = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    -DoutputDirectory=*) out="${word#*=}" ;;
    -f) ;;
    *pom.xml) cp "$word" "$PRETEND/pom.xml" ;;
  esac
done
mkdir -p "$out"
cp "$PRETEND"/brought/* "$out"
"""
GO = '#!/bin/sh\necho "$2" > "$GOBIN/thing"\nchmod +x "$GOBIN/thing"\n'
FAILS = "#!/bin/sh\necho working\necho\necho 'the network is down' >&2\nexit 1\n"


class Machine:
    """Its programs are those of a folder, and nothing else; its cache is empty."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs, self.brought = folder / "bin", folder / "brought"
        for one in (self.programs, self.brought):
            one.mkdir()
        for tool in ("sh", "cp", "mkdir", "chmod", "touch"):
            (self.programs / tool).symlink_to(f"/bin/{tool}")
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.setenv("PRETEND", str(folder))
        monkeypatch.setenv("MQLAB_CACHE", str(folder / "cache"))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setattr("mqlab.systems.install.download._EXTRA_PATH", ())
        monkeypatch.setattr("mqlab.systems.install.package_managers._POLICY", folder / "policy-rc.d")
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def has(self, name: str, script: str) -> None:
        (self.programs / name).write_text(script)
        (self.programs / name).chmod(0o755)

    def gets(self, part: Part) -> list[str]:
        said: list[str] = []
        install(part, said.append)
        return said

    def fails(self, part: Part) -> str:
        with pytest.raises(SystemFailedError) as caught:
            self.gets(part)
        left = [path for path in cache().rglob("*") if path.is_file()] if cache().exists() else []
        assert left == [], "a half install is none"
        assert missing(part)
        return str(caught.value)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def packed(path: Path, files: dict[str, str]) -> None:
    """As a tar or a zip, by the name; what is in a folder `bin` can be executed."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as held:
            for name, text in files.items():
                one = zipfile.ZipInfo(name)
                one.external_attr = (0o755 if "bin/" in name else 0o644) << 16
                held.writestr(one, text)
        return
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755 if "bin/" in name else 0o644
            tar.addfile(member, io.BytesIO(text.encode()))


class TestArchive:
    @pytest.mark.parametrize("kind", ["tar.gz", "zip"])
    def test_it_is_unpacked_without_the_folders_that_hold_only_one(self, machine: Machine, kind: str) -> None:
        machine.has("mvn", MAVEN)
        packed(machine.brought / f"thing-1.2.{kind}", {"thing/1.2/bin/run": "go", "thing/1.2/lib/a.jar": "jar"})
        part = Archive(f"org.example:thing:1.2:{kind}:bin")
        assert missing(part) == f"no archives/thing-1.2-bin in {cache()}"
        assert machine.gets(part) == [f"getting org.example:thing:1.2:{kind}:bin with Maven"]
        assert path_of(part) == cache() / "archives" / "thing-1.2-bin"
        assert (path_of(part) / "lib" / "a.jar").read_text() == "jar"
        assert (path_of(part) / "bin" / "run").stat().st_mode & stat.S_IXUSR
        assert not (path_of(part) / "lib" / "a.jar").stat().st_mode & stat.S_IXUSR
        assert [one.name for one in path_of(part).parent.iterdir()] == ["thing-1.2-bin"], "nothing else is left"
        assert machine.gets(part) == [], "what is there is left alone"

    def test_one_that_is_torn(self, machine: Machine) -> None:
        machine.has("mvn", MAVEN)
        whole = machine.brought / "thing-1.tar.gz"
        packed(whole, {f"thing/{number}": os.urandom(500).hex() for number in range(50)})
        whole.write_bytes(whole.read_bytes()[:20_000])
        assert "thing-1.tar.gz cannot be unpacked" in machine.fails(Archive("org.example:thing:1:tar.gz"))

    def test_one_that_wants_out_of_its_folder(self, machine: Machine, tmp_path: Path) -> None:
        machine.has("mvn", MAVEN)
        packed(machine.brought / "thing-1.tar.gz", {"../../../../../escaped": "x"})
        assert "cannot be unpacked" in machine.fails(Archive("org.example:thing:1:tar.gz"))
        assert not [*tmp_path.rglob("escaped")]

    def test_what_maven_says_last_is_told(self, machine: Machine) -> None:
        machine.has("mvn", FAILS)
        assert machine.fails(Archive("org.example:thing:1:zip")) == "mvn failed: working / the network is down"

    def test_without_maven(self, machine: Machine) -> None:
        said = machine.fails(Archive("org.example:thing:1:zip"))
        assert said == "install maven with the package manager of this machine: there is no apt-get"


class TestJars:
    PART = Jars(("org.example:server:1.0", "org.example:client:1.0"), ("org.example:heavy",))

    def test_all_of_them_are_in_one_folder(self, machine: Machine, tmp_path: Path) -> None:
        machine.has("mvn", MAVEN)
        for name in ("server.jar", "client.jar", "needed.jar"):
            (machine.brought / name).touch()
        machine.gets(self.PART)
        assert sorted(one.name for one in path_of(self.PART).iterdir()) == ["client.jar", "needed.jar", "server.jar"]
        pom = (tmp_path / "pom.xml").read_text()
        assert pom.count("<exclusion><groupId>org.example</groupId><artifactId>heavy</artifactId></exclusion>") == 2
        assert "<artifactId>client</artifactId><version>1.0</version>" in pom

    def test_others_are_in_another_folder(self, machine: Machine) -> None:
        assert machine.brought.exists()
        assert path_of(Jars(self.PART.coordinates)) != path_of(self.PART)
        assert path_of(self.PART).parent == cache() / "jars" / "server-1.0"


class TestGo:
    def test_the_program_is_built_into_the_cache(self, machine: Machine) -> None:
        machine.has("go", GO)
        part = GoProgram("example.com/me/thing/v2@v2.1.0")
        machine.gets(part)
        assert path_of(part) == cache() / "go" / "thing-v2.1.0" / "thing"
        assert path_of(part).read_text() == "example.com/me/thing/v2@v2.1.0\n"

    def test_if_something_else_was_built_that_is_told(self, machine: Machine) -> None:
        machine.has("go", GO)
        with pytest.raises(SystemFailedError, match="still no go/other-v1/other in"):
            machine.gets(GoProgram("example.com/me/other@v1"))


class TestDebian:
    PART = Debian(("thing-server", "thing-tools"), "thingd")
    APT = """#!/bin/sh
[ -x "$PRETEND/policy-rc.d" ] || exit 3
echo "$@" >> "$PRETEND/asked"
[ "$1" = update ] && touch "$PRETEND/lists" && exit 0
[ -e "$PRETEND/lists" ] || { echo 'Unable to locate package'; exit 100; }
touch "$PRETEND/bin/thingd"; chmod +x "$PRETEND/bin/thingd"
"""

    def test_it_is_installed_with_new_lists_and_no_service_is_started(self, machine: Machine, tmp_path: Path) -> None:
        machine.has("apt-get", self.APT)
        assert missing(self.PART) == "no thingd, of the Debian package thing-server"
        machine.gets(self.PART)
        install = "install -y -q --no-install-recommends thing-server thing-tools"
        assert (tmp_path / "asked").read_text().splitlines() == [install, "update -q", install]
        assert path_of(self.PART) == machine.programs / "thingd"
        assert not (tmp_path / "policy-rc.d").exists(), "only while packages are installed"

    def test_a_policy_that_is_there_stays(self, machine: Machine, tmp_path: Path) -> None:
        machine.has("apt-get", self.APT)
        (tmp_path / "policy-rc.d").write_text("the owner's\n")
        (tmp_path / "policy-rc.d").chmod(0o755)
        machine.gets(self.PART)
        assert (tmp_path / "policy-rc.d").read_text() == "the owner's\n"

    def test_it_is_for_root(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        machine.has("apt-get", self.APT)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        assert machine.fails(self.PART) == (
            "installing packages is for root: sudo apt-get install thing-server thing-tools"
        )


class TestJava:
    def test_the_one_of_java_home_comes_first(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        assert missing(Java()) == "no Java runtime"
        machine.has("java", "")
        assert path_of(Java()) == machine.programs / "java"
        monkeypatch.setenv("JAVA_HOME", str(machine.brought))
        assert missing(Java()) == "no Java runtime"
        (machine.brought / "bin").mkdir()
        (machine.brought / "bin" / "java").symlink_to(machine.programs / "java")
        assert path_of(Java()) == machine.brought / "bin" / "java"

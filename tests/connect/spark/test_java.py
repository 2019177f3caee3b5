import os
import subprocess
from pathlib import Path

import pytest

from headrace.connect.spark.java import JavaOrigin, find_java

FAKE_JAVA = """#!/bin/sh
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""


def fake_java(home: Path, version: str) -> Path:
    """A home with a `java` that says it has this version, and starts with any option."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FAKE_JAVA.format(home=home, version=version))
    java.chmod(0o755)
    return home


def test_java_home_is_taken_when_it_is_recent_enough(tmp_path: Path):
    home = fake_java(tmp_path / "java", "21")
    java = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (java.home, java.major, java.origin) == (home, 21, JavaOrigin.JAVA_HOME)


def test_java_on_the_path_is_taken_by_the_home_it_names(tmp_path: Path):
    home = fake_java(tmp_path / "java", "17")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    java = find_java({"PATH": f"{links}{os.pathsep}/bin"})
    assert (java.home, java.major, java.origin) == (home, 17, JavaOrigin.PATH)


@pytest.mark.parametrize("version", ["1.8", "11", "what?"])
def test_an_older_java_gives_way_to_the_packaged_one(tmp_path: Path, version: str):
    home = fake_java(tmp_path / "java", version)
    java = find_java({"JAVA_HOME": str(home), "PATH": str(home / "bin")})
    assert java.origin is JavaOrigin.PACKAGE
    assert java.major >= 17


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "no program at all"])
def test_a_java_that_does_not_run_gives_way_to_the_packaged_one(tmp_path: Path, text: str):
    home = fake_java(tmp_path / "java", "17")
    (home / "bin" / "java").write_text(text)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).origin is JavaOrigin.PACKAGE


def test_a_java_home_that_does_not_exist_gives_way_to_the_packaged_one(tmp_path: Path):
    assert find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""}).origin is JavaOrigin.PACKAGE


def test_the_packaged_java_starts_with_the_option_that_spark_always_gives():
    packaged = find_java({"PATH": ""})
    command = [str(packaged.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert f'version "{packaged.major}' in answer.stderr


def test_the_packaged_java_is_found_again_through_its_own_home():
    packaged = find_java({"PATH": ""})
    again = find_java({"JAVA_HOME": str(packaged.home), "PATH": ""})
    assert again.home == packaged.home

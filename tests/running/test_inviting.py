"""The command that an invitation prints is one for a shell, whatever a site is called."""

from __future__ import annotations

import shlex

import pytest

from headrace.app.inviting import Invited


@pytest.mark.parametrize("site", ["eu", "New York", "l'Aquila", "$HOME"])
def test_a_shell_takes_the_name_of_a_site_as_one_word(site: str) -> None:
    command = Invited(site, "https://10.0.0.1:7433", "abc.def", 0.0).command
    words = ["headrace", "agent", "--site", site, "--join", "https://10.0.0.1:7433", "--token", "abc.def"]
    assert shlex.split(command) == words

"""Who may join a project, by values alone."""

from __future__ import annotations

import pytest

from headrace.model.joining import (
    INVITED_FOR_S,
    JoinedAgent,
    JoinedAgents,
    JoinRefused,
    JoinToken,
    add_invitation,
    read_token,
)

TOKEN = JoinToken("secret", "f" * 32)
NOW = 1_000_000.0
INVITED = add_invitation((), "eu", TOKEN, NOW)
ONE, OTHER = JoinedAgent("one", "10.0.0.1:80"), JoinedAgent("other", "10.0.0.2:80")


def join(known: JoinedAgents, site: str, agent: JoinedAgent, replaces: bool = False, now: float = NOW) -> JoinedAgents:
    return known.join(site, TOKEN.digest, agent, INVITED, replaces, now)


def test_a_token_is_read_as_it_was_shown_and_only_a_digest_is_kept() -> None:
    assert read_token(f" {TOKEN.shown}\n") == TOKEN
    assert read_token("secret") is None and read_token("secret.abc") is None and read_token("." + "f" * 32) is None
    assert INVITED[0].site == "eu" and "secret" not in INVITED[0].digest


def test_a_token_lets_one_site_join_once_and_for_fifteen_minutes() -> None:
    joined = join(JoinedAgents(), "eu", ONE, now=NOW + INVITED_FOR_S - 1)
    assert joined.agents == {"eu": ONE}
    for wrong, known, site, now in (
        ("joined with it before", joined, "eu", NOW),
        ("has run out", JoinedAgents(), "eu", NOW + INVITED_FOR_S),
        ('for site "eu"', JoinedAgents(), "us", NOW),
    ):
        with pytest.raises(JoinRefused, match=wrong):
            join(known, site, ONE, now=now)
    with pytest.raises(JoinRefused, match="is unknown"):
        JoinedAgents().join("eu", JoinToken("other", "").digest, ONE, INVITED, False, NOW)


def test_another_folder_takes_over_only_if_a_person_says_so_and_the_one_before_may_not_ask_any_more() -> None:
    known = JoinedAgents({"eu": ONE})
    with pytest.raises(JoinRefused, match="run by another folder"):
        join(known, "eu", OTHER)
    replaced = join(known, "eu", OTHER, replaces=True)
    assert replaced.agents["eu"] == OTHER and replaced.denied == {"one": "eu"}
    with pytest.raises(JoinRefused, match="another folder has replaced"):
        replaced.greet("eu", ONE, is_other_there=False)


def test_a_process_that_starts_again_is_known_and_a_second_one_is_refused() -> None:
    known, again = JoinedAgents({"eu": ONE}), JoinedAgent("one", "10.0.0.9:80", boot="b")
    assert known.greet("eu", again, is_other_there=False).agents == {"eu": again}
    with pytest.raises(JoinRefused, match="run by another process"):
        known.greet("eu", again, is_other_there=True)


def test_a_site_that_is_forgotten_may_be_invited_again_in_a_new_folder() -> None:
    forgotten = JoinedAgents({"eu": ONE, "us": OTHER}).forget("eu")
    assert forgotten.denied == {"one": "eu"} and forgotten.forgotten == ("eu",) and set(forgotten.agents) == {"us"}
    with pytest.raises(JoinRefused, match="was forgotten"):
        forgotten.greet("eu", ONE, is_other_there=False)
    with pytest.raises(JoinRefused, match="this folder ran site"):
        join(forgotten, "eu", ONE)
    back = join(forgotten, "eu", JoinedAgent("new", "10.0.0.3:80"))
    assert back.forgotten == () and back.denied == {"one": "eu"}


def test_invitations_that_have_run_out_are_dropped() -> None:
    later = add_invitation(INVITED, "us", JoinToken("b", ""), NOW + INVITED_FOR_S + 1)
    assert [one.site for one in later] == ["us"]

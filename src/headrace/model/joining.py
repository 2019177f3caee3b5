"""Sites that join a project from elsewhere: who was invited, who has joined, and who may not ask any more.

Everything here is decided from values; the clock is passed in, in seconds since 1970.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

INVITED_FOR_S = 900.0
FINGERPRINT_DIGITS = 32


class JoinRefused(Exception):
    """A site may not join, or not go on; the message says why, and the hint what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Invitation:
    """Whoever has the secret may join as a site, once, until a time. Only a digest of the secret is kept."""

    site: str
    digest: str
    until: float


@dataclass(frozen=True, slots=True)
class JoinToken:
    """What an invited site is given: a secret, and what it recognises the project's authority by."""

    secret: str
    fingerprint: str

    @property
    def shown(self) -> str:
        return f"{self.secret}.{self.fingerprint}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.secret.encode()).hexdigest()


def read_token(text: str) -> JoinToken | None:
    """None of a text that is no token."""
    secret, dot, fingerprint = text.strip().rpartition(".")
    is_whole = bool(secret and dot) and len(fingerprint) == FINGERPRINT_DIGITS
    return JoinToken(secret, fingerprint) if is_whole else None


@dataclass(frozen=True, slots=True)
class JoinedAgent:
    """The folder that runs a site: which instance it is, where it answers, and which process of it was there last."""

    instance: str
    address: str
    version: str = ""
    boot: str = ""


@dataclass(frozen=True, slots=True)
class JoinedAgents:
    """Who has joined a project. `denied` are instances that may not ask any more, and the site that each was; `used`
    are digests of invitations that somebody has joined with; `forgotten` sites are planned without.
    """

    agents: Mapping[str, JoinedAgent] = field(default_factory=dict)
    denied: Mapping[str, str] = field(default_factory=dict)
    used: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()

    def join(
        self, site: str, digest: str, agent: JoinedAgent, invited: Sequence[Invitation], replaces: bool, now: float
    ) -> JoinedAgents:
        """Raises JoinRefused. Who joins again with the same invitation is refused: each is for one."""
        found = [one for one in invited if hmac.compare_digest(one.digest, digest)]
        again = f"`headrace sites invite {site}` where the project is coordinated prints another"
        if not found or digest in self.used:
            raise JoinRefused("the token is unknown, or somebody has joined with it before", again)
        if found[0].site != site:
            raise JoinRefused(f'the token is for site "{found[0].site}", not for "{site}"', again)
        if now >= found[0].until:
            raise JoinRefused("the token has run out", again)
        if agent.instance in self.denied:
            what = f'this folder ran site "{site}" before it was forgotten, or another one replaced it'
            raise JoinRefused(what, "join from an empty folder; or add --replace, to go on with the rows that are here")
        before = self.agents.get(site)
        if before is not None and before.instance != agent.instance and not replaces:
            what = f'site "{site}" is run by another folder, which answers at {before.address}'
            raise JoinRefused(what, "go on there; or, if that one is gone for good, add --replace here")
        return replace(self._take(site, agent), used=(*self.used, digest))

    def take_over(self, site: str, agent: JoinedAgent) -> JoinedAgents:
        """Another instance runs a site from now on, because a person has said so."""
        return self._take(site, agent)

    def _take(self, site: str, agent: JoinedAgent) -> JoinedAgents:
        before = self.agents.get(site)
        gone = {} if before is None or before.instance == agent.instance else {before.instance: site}
        forgotten = tuple(one for one in self.forgotten if one != site)
        return replace(self, agents={**self.agents, site: agent}, denied={**self.denied, **gone}, forgotten=forgotten)

    def greet(self, site: str, agent: JoinedAgent, is_other_there: bool) -> JoinedAgents:
        """A process says that it runs a site, and where. `is_other_there` is whether the one before still answers
        elsewhere. Raises JoinRefused.
        """
        before = self.agents.get(site)
        if agent.instance in self.denied or before is None or before.instance != agent.instance:
            hint = f"`headrace sites invite {site}` where the project is coordinated lets a new folder join"
            raise JoinRefused(f'site "{site}" was forgotten, or another folder has replaced this one', hint)
        if is_other_there:
            what = f'site "{site}" is run by another process, which answers at {before.address}'
            raise JoinRefused(what, "stop that one; or, if this folder is to take its place, add --replace here")
        return replace(self, agents={**self.agents, site: agent})

    def forget(self, site: str) -> JoinedAgents:
        gone = self.agents.get(site)
        agents = {name: one for name, one in self.agents.items() if name != site}
        denied = self.denied if gone is None else {**self.denied, gone.instance: site}
        return replace(self, agents=agents, denied=denied, forgotten=(*self.forgotten, site))


def add_invitation(invited: Sequence[Invitation], site: str, token: JoinToken, now: float) -> tuple[Invitation, ...]:
    """Those that have run out are dropped."""
    return (*(one for one in invited if one.until > now), Invitation(site, token.digest, now + INVITED_FOR_S))

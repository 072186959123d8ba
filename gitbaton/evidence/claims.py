"""What a run says of commits: which it made or recorded, and where the evidence for each lies.

Saying is not proving: `covered` judges each claim. What an intent under way holds counts as well,
since the branch may have moved already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

from gitbaton.model import layout
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Advance, Attempt, Land, Merged, Recorded
from gitbaton.store import runs

Kind = Literal["merge", "sealed", "resolution", "plan", "update", "land", "accept"]


class Stored:
    """A receipt as it lies in a state, read when somebody asks: ``where`` (as git would name it),
    and the digests of it and of its signature that the state records."""

    def __init__(
        self,
        loaded: runs.Loaded,
        path: str,
        digests: tuple[str | None, str | None],
        given: tuple[str | None, str | None] | None = None,
    ) -> None:
        self.where = f"{loaded.oid}:{path}"
        self.digest, self.signature_digest = digests
        self._loaded = loaded
        self._path = path
        self._given = given

    @cached_property
    def receipt(self) -> bytes | None:
        if self._given is not None:
            return _bytes(self._given[0])
        return self._loaded.file(self._path)

    @cached_property
    def signature(self) -> bytes | None:
        if self._given is not None:
            return _bytes(self._given[1])
        return self._loaded.file(self._path.removesuffix("json") + "sig")


class Claim(NamedTuple):
    """What a run says of one commit.

    ``merge`` is an integration merge, ``sealed`` or ``resolution`` the sealed commit of an
    integrated attempt; the other kinds are recorded commits that no ticket made. ``stored`` is the
    commit's own receipt; ``tested_by`` the commit on which the checks of a merge ran.
    """

    kind: Kind
    commit: str
    attempt: AttemptId | None = None
    stored: Stored | None = None
    tested_by: str | None = None

    @property
    def receipt(self) -> bytes | None:
        return self.stored.receipt if self.stored else None

    @property
    def signature(self) -> bytes | None:
        return self.stored.signature if self.stored else None


def of_attempt(loaded: runs.Loaded, attempt: Attempt) -> Stored:
    """The receipt of a sealed attempt."""
    sealed = attempt.sealed
    digests = (sealed.receipt_sha256, sealed.signature_sha256) if sealed else (None, None)
    return Stored(loaded, layout.path_of(attempt.id, layout.RECEIPT), digests)


def claims_of(loaded: runs.Loaded, attempts: Mapping[AttemptId, Attempt]) -> dict[str, Claim]:
    """Everything that the state says of commits, by object id."""
    found: dict[str, Claim] = {}
    for claim in _claims(loaded, attempts):
        found.setdefault(claim.commit, claim)
    return found


def _claims(loaded: runs.Loaded, attempts: Mapping[AttemptId, Attempt]) -> Iterator[Claim]:
    for recorded in loaded.state.run.recorded:
        yield _recorded(loaded, recorded)
    for attempt in attempts.values():
        if attempt.merge_commit is not None:
            yield _merge(loaded, attempt, attempt.merge_commit)
            yield from _sealed(loaded, attempt)
    for name, intent in loaded.state.intents.items():
        path = layout.intent_path(name)
        if isinstance(intent, Advance):
            for merged in intent.merges:
                member = attempts.get(AttemptId(merged.ticket, merged.number))
                if member is not None and _is_current(member, merged):
                    own = _given(loaded, path, merged.receipt, merged.signature)
                    yield Claim("merge", merged.commit, member.id, own, merged.tested_by)
                    yield from _sealed(loaded, member)
        recorded_too = intent.recorded if isinstance(intent, Advance) else ()
        if isinstance(intent, Land) and intent.record is not None:
            recorded_too = (intent.record,)
        for each in recorded_too:
            assert isinstance(intent, Advance | Land)
            texts = intent.receipts.get(each.commit), intent.signatures.get(each.commit)
            yield Claim(each.kind, each.commit, None, _given(loaded, path, *texts))


def _recorded(loaded: runs.Loaded, recorded: Recorded) -> Claim:
    path = layout.commit_path(recorded.commit)
    digests = recorded.receipt_sha256, recorded.signature_sha256
    stored = Stored(loaded, path, digests)
    has_one = digests[0] is not None or stored.receipt is not None
    return Claim(recorded.kind, recorded.commit, None, stored if has_one else None)


def _merge(loaded: runs.Loaded, attempt: Attempt, commit: str) -> Claim:
    path = layout.path_of(attempt.id, layout.MERGED)
    digests = attempt.merged_receipt_sha256, attempt.merged_signature_sha256
    stored = Stored(loaded, path, digests) if digests[0] is not None else None
    return Claim("merge", commit, attempt.id, stored, attempt.tested_by)


def _sealed(loaded: runs.Loaded, attempt: Attempt) -> Iterator[Claim]:
    if attempt.sealed is not None:
        kind: Kind = "sealed" if attempt.resolves is None else "resolution"
        yield Claim(kind, attempt.sealed.commit, attempt.id, of_attempt(loaded, attempt))


def _is_current(attempt: Attempt, merged: Merged) -> bool:
    return attempt.sealed is not None and attempt.sealed.receipt_sha256 == merged.receipt_sha256


def _given(
    loaded: runs.Loaded, path: str, receipt: str | None, signature: str | None
) -> Stored | None:
    """A receipt whose text an intent holds: it is bound by the state itself."""
    if receipt is None:
        return None
    digests = _sha256(receipt), _sha256(signature)
    return Stored(loaded, path, digests, (receipt, signature))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _sha256(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()

"""When this machine first saw the beat of another machine's lease.

Clocks of two machines cannot be compared, but how long a beat stays the same can be watched on
one's own. The first sight is kept beside the repository, so that every verb may look once and the
next one knows.
"""

from __future__ import annotations

import msgspec

from gitbaton.engine.context import Context
from gitbaton.engine.disk import write_synced
from gitbaton.model.ids import assignment_id
from gitbaton.model.run import RunState
from gitbaton.model.transitions import WORKING
from gitbaton.rules.lease import Sighting

_Observed = dict[str, Sighting]


def sightings_of(ctx: Context, run: str) -> dict[str, Sighting]:
    """The first sights of the run's leases, by ``TICKET@N``."""
    prefix = f"{run}/"
    return {k.removeprefix(prefix): s for k, s in _read(ctx).items() if k.startswith(prefix)}


def look(ctx: Context, run: str, state: RunState) -> None:
    """Note beats of other machines that were not seen before; writes only if there are any."""
    now = ctx.clock.now()
    foreign = {
        assignment_id(run, a.id): a.lease.beat
        for a in state.live.attempts.values()
        if a.state in WORKING and a.lease.machine != now.machine
    }
    known = _read(ctx)
    kept = {k: s for k, s in known.items() if not k.startswith(f"{run}/") or k in foreign}
    for name, beat in foreign.items():
        seen = kept.get(name)
        if seen is None or (seen.beat, seen.boot) != (beat, now.boot):
            kept[name] = Sighting(beat, now.boot, now.monotonic)
    if kept != known:
        ctx.repo.baton_dir.mkdir(parents=True, exist_ok=True)
        write_synced(ctx.repo.baton_dir / "observed.json", msgspec.json.encode(kept))


def _read(ctx: Context) -> _Observed:
    try:
        data = (ctx.repo.baton_dir / "observed.json").read_bytes()
        return msgspec.json.decode(data, type=_Observed)
    except (OSError, msgspec.DecodeError):
        return {}

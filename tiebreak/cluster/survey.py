"""A look at every node of a cluster, without a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tiebreak.cluster.inspection import Inspection, Question, inspection_of, question_bytes
from tiebreak.cluster.links import PATIENCE, Cluster, Link, LinkBroken, Member, Patience


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found on a node, or why nothing was."""

    member: Member
    found: Inspection | None
    problem: str = ""


async def survey(cluster: Cluster, question: Question, patience: Patience = PATIENCE) -> Sequence[Seen]:
    """Look at every node, all at once."""
    try:
        members = await asyncio.wait_for(cluster.members(), patience.start_s)
    except (TimeoutError, LinkBroken):
        return []
    return await asyncio.gather(*(_look_at(cluster, member, question_bytes(question), patience) for member in members))


async def _look_at(cluster: Cluster, member: Member, question: bytes, patience: Patience) -> Seen:
    link: Link | None = None
    try:
        async with asyncio.timeout(patience.start_s):
            link = await cluster.start(member, ())
            return Seen(member, inspection_of(await link.inspect(question)))
    except TimeoutError:
        return Seen(member, None, f"no worker was ready within {patience.start_s:g} s")
    except LinkBroken as error:
        return Seen(member, None, str(error))
    finally:
        if link is not None:
            link.end()

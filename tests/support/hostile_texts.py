"""Two hundred texts that try to become code in a page."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from support.made import Planted, Trials, samples, write_run
from tiebreak.core.work import Changes, Step, Work, WorkOutcome
from tiebreak.pipeline import rebuild

_DO = "window.pwned=1;document.title='pwned';fetch('http://127.0.0.1:9/pwned')"
_ELEMENTS = [
    "<script>{do}</script>",
    "<ScRiPt>{do}</sCrIpT >",
    "<script src=//127.0.0.1:9/pwned.js></script>",
    '<img src=x onerror="{do}">',
    "<img/src=`x`onerror={do}>",
    '<svg onload="{do}">',
    "<svg><script>{do}</script></svg>",
    '<svg><animate onbegin="{do}" attributeName=x dur=1s>',
    '<math><mtext><img src=x onerror="{do}"></mtext></math>',
    '<body onload="{do}">',
    '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>',
    '<iframe src="javascript:{do}"></iframe>',
    '<object data="javascript:{do}"></object>',
    '<embed src="http://127.0.0.1:9/pwned">',
    "<link rel=stylesheet href=//127.0.0.1:9/pwned.css>",
    "<style>@import '//127.0.0.1:9/pwned.css';*{{background:url(//127.0.0.1:9/pwned)}}</style>",
    "<base href=//127.0.0.1:9/>",
    '<meta http-equiv=refresh content="0;url=http://127.0.0.1:9/pwned">',
    '<details open ontoggle="{do}">',
    '<input autofocus onfocus="{do}">',
    '<video><source onerror="{do}"></video>',
    '<a href="javascript:{do}" autofocus>x</a>',
    "<form action=//127.0.0.1:9/pwned><button autofocus>x</button></form>",
    "<template><script>{do}</script></template>",
    '<noscript><p title="</noscript><img src=x onerror={do}>">',
]
_ESCAPES = [
    "{x}",
    "\"'>{x}",
    "</script>{x}",
    "</title></style></textarea>{x}",
    "--><!--{x}",
    "]]>{x}",
    "{{{{ {x} }}}}{{% raw %}}",
    "+{x}\u2028\u2029\x00",
]
PAYLOADS = [escape.format(x=element.format(do=_DO)) for escape, element in product(_ESCAPES, _ELEMENTS)]
assert len(PAYLOADS) == len(set(PAYLOADS)) == 200


def hostile_run(folder: Path) -> Path:
    """Every payload in every field that holds somebody else's words."""
    joined = "\n".join(PAYLOADS)
    work = Work(
        outcome=WorkOutcome.WRONG_RESULT,
        seconds=1.0,
        changes=Changes(files=tuple(PAYLOADS[:5]), files_changed=5, lines_added=1, diff="\n".join(f"+{p}" for p in PAYLOADS)),
        checked=True,
        check_output=joined,
        agent_version=PAYLOADS[0],
    )
    steps = tuple(Step(at_s=0.1, kind="tool", actor=p, text=p) for p in PAYLOADS)
    chosen = [
        s.__class__(**{**{f: getattr(s, f) for f in s.__struct_fields__}, "id": f"{i:03} {p}", "targets": (p,), "category": p})
        for i, (s, p) in enumerate(zip(samples(200), PAYLOADS, strict=True))
    ]
    contestants = [
        Planted(
            label=f"{number} {' '.join(PAYLOADS[number * 20 : number * 20 + 20])}",
            planted=["timeout" if number == 9 else float(i % 3 == number % 3) for i in range(200)],
            texts=PAYLOADS,
            settings={PAYLOADS[number]: PAYLOADS[number + 10]},
            agent="builtin",
            work=work if number < 2 else None,
            transcript=steps if number < 2 else (),
            worked=2,
        )
        for number in range(10)
    ]
    write_run(folder, contestants, Trials(chosen), dataset=f"tasks:{PAYLOADS[7]}{PAYLOADS[60]}", scorers=(PAYLOADS[33],))
    rebuild(folder)
    return folder

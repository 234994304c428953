"""First names so common that one alone tells nobody: "Albert" is not yet Albert Einstein."""

from __future__ import annotations

from tiebreak.scorers.words import normal

_NAMES = """
aaron adam adolf adrian agatha alan albert alex alexander alfred alice allan allen amy andrea andreas andrew andy angela
ann anna anne anthony anton antonio arnold arthur barbara ben benjamin bernard bertrand bill billy bob brad brian bruce
calvin carl carlos carol caroline catherine charles charlie chris christian christina christine christopher claire
claude craig daniel dave david dennis diana diane donald donna dorothy douglas dwight ed eddie edgar edmund edward edwin
eleanor elena elizabeth ellen emily emma eric erica ernest erwin eugene eva evelyn francis franklin franz fred frederick
friedrich gary gene geoffrey george gerald gilbert gordon gregory guy hannah hans harold harriet harrison harry heather
heinrich helen henri henry herbert herman howard hugh hugo ian isaac isabel ivan jack jacob jacques james jamie jane
janet jason jean jeff jefferson jennifer jeremy jerry jesse jessica jim jimmy joan joe johann johannes john johnny
jonathan jose joseph joshua juan judith judy julia julian julie karen karl kate katherine kathleen kathy keith kelly ken
kenneth kevin kim kurt lance larry laura lauren lawrence lee leon leonard lewis linda lisa louis louise lucas lucy
ludwig luis luke lyndon margaret maria marie marilyn marion mark martha martin mary matthew max megan melissa michael
michel michelle miguel mike mohamed mohammed nancy natalie nathan neil nicholas nick nicole niels nikola nina norman
oliver oscar oskar otto pamela patricia patrick paul paula pedro peter phil philip phillip pierre rachel ralph ray
raymond rebecca richard rick robert roberto robin rodney roger roland ron ronald rosa roy russell ruth ryan sally sam
samuel sandra sara sarah scott sean sharon sigmund simon sophie stanley stephanie stephen steve steven stuart sue susan
suzanne sylvia ted teresa terry theodore thomas tim timothy toby todd tom tony ulysses victor vincent walter warren
wayne wendy werner wilhelm william winston wolfgang woodrow zachary
"""
GIVEN = frozenset(map(normal, _NAMES.split()))

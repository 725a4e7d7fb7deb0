"""The country streams of `dynamic` 5.1: ``skew`` percent of the messages from one country, uniform otherwise.

The paper's country-skew-r0 .. r100 are ``skew=0`` .. ``skew=100``; country-half-skew-r80 is
``skew=80,then=0``, where the second half of the messages has a different skew.

Not specified by the paper: the 204 countries (here: the members and observers of the United Nations and nine
more), the hot country (here: the first, id 0), and the rest (here: the other 203; a skew below 1/204 is
uniform over all).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenflow.kernels import Int32Array, UInt64Array
from evenflow.keys import hash_keys
from evenflow.streams.generator import Generator
from evenflow.streams.sampling import draw_grouped, draw_salt

_NAMES = """
Afghanistan · Albania · Algeria · Andorra · Angola · Antigua and Barbuda · Argentina · Armenia · Aruba ·
Australia · Austria · Azerbaijan · Bahamas · Bahrain · Bangladesh · Barbados · Belarus · Belgium · Belize
· Benin · Bermuda · Bhutan · Bolivia · Bosnia and Herzegovina · Botswana · Brazil · Brunei · Bulgaria ·
Burkina Faso · Burundi · Cabo Verde · Cambodia · Cameroon · Canada · Central African Republic · Chad ·
Chile · China · Colombia · Comoros · Congo · Cook Islands · Costa Rica · Croatia · Cuba · Cyprus · Czechia
· Democratic Republic of the Congo · Denmark · Djibouti · Dominica · Dominican Republic · Ecuador · Egypt
· El Salvador · Equatorial Guinea · Eritrea · Estonia · Eswatini · Ethiopia · Fiji · Finland · France ·
Gabon · Gambia · Georgia · Germany · Ghana · Greece · Greenland · Grenada · Guatemala · Guinea ·
Guinea-Bissau · Guyana · Haiti · Holy See · Honduras · Hong Kong · Hungary · Iceland · India · Indonesia ·
Iran · Iraq · Ireland · Israel · Italy · Ivory Coast · Jamaica · Japan · Jordan · Kazakhstan · Kenya ·
Kiribati · Kosovo · Kuwait · Kyrgyzstan · Laos · Latvia · Lebanon · Lesotho · Liberia · Libya ·
Liechtenstein · Lithuania · Luxembourg · Macau · Madagascar · Malawi · Malaysia · Maldives · Mali · Malta
· Marshall Islands · Mauritania · Mauritius · Mexico · Micronesia · Moldova · Monaco · Mongolia ·
Montenegro · Morocco · Mozambique · Myanmar · Namibia · Nauru · Nepal · Netherlands · New Zealand ·
Nicaragua · Niger · Nigeria · North Korea · North Macedonia · Norway · Oman · Pakistan · Palau · Palestine
· Panama · Papua New Guinea · Paraguay · Peru · Philippines · Poland · Portugal · Puerto Rico · Qatar ·
Romania · Russia · Rwanda · Saint Kitts and Nevis · Saint Lucia · Saint Vincent and the Grenadines · Samoa
· San Marino · Sao Tome and Principe · Saudi Arabia · Senegal · Serbia · Seychelles · Sierra Leone ·
Singapore · Slovakia · Slovenia · Solomon Islands · Somalia · South Africa · South Korea · South Sudan ·
Spain · Sri Lanka · Sudan · Suriname · Sweden · Switzerland · Syria · Taiwan · Tajikistan · Tanzania ·
Thailand · Timor-Leste · Togo · Tonga · Trinidad and Tobago · Tunisia · Turkey · Turkmenistan · Tuvalu ·
Uganda · Ukraine · United Arab Emirates · United Kingdom · United States · Uruguay · Uzbekistan · Vanuatu
· Venezuela · Vietnam · Yemen · Zambia · Zimbabwe
"""
COUNTRIES = tuple(" ".join(name.split()) for name in _NAMES.split("·"))
_COUNTS = np.array([1, len(COUNTRIES) - 1])


@dataclass(frozen=True)
class Countries(Generator):
    """204 countries, one of which has ``skew`` percent of the messages.

    Parameters
    ----------
    skew
        Percentage of the messages with the hot country.
    then
        The same for the second half of the stream; None for no change.

    Examples
    --------
    >>> stream = Countries(skew=80, then=0, messages=2000, seed=1)
    >>> ids = next(stream.chunks()).ids
    >>> int((ids[:1000] == 0).sum()), int((ids[1000:] == 0).sum()), stream.label(0)
    (798, 5, 'Afghanistan')
    """

    skew: float = 80.0
    then: float | None = None

    keyword = "countries"
    summary = "204 countries, one with skew= percent of the messages (then= in the second half)"

    def _fill(self, start: int, out: Int32Array) -> None:
        turn = min(max(self.messages // 2 - start, 0), out.size)
        then = self.skew if self.then is None else self.then
        for skew, begin, end in ((self.skew, 0, turn), (then, turn, out.size)):
            hot = max(skew / 100, 1 / len(COUNTRIES))
            draw_grouped(draw_salt(self.seed), start + begin, np.array([hot, 1.0]), _COUNTS, out[begin:end])

    def keys_upper_bound(self) -> int:
        """Return 204."""
        return len(COUNTRIES)

    @cached_property
    def hashes(self) -> UInt64Array:
        """The 64-bit hash of every country's name, by id."""
        return hash_keys(list(COUNTRIES))

    def label(self, id: int) -> str:
        """Return the country's name."""
        return COUNTRIES[self._known(id)]

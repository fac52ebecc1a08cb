"""Codes of languages, as in ISO 639: those that may be said of a query."""

from __future__ import annotations

CODES = """
aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara/arb as:asm av:ava ay:aym/ayr az:aze/azj ba:bak
be:bel bg:bul bh:bih bi:bis bm:bam bn:ben bo:bod/tib br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre/cwd
cs:ces/cze cu:chu cv:chv cy:cym/wel da:dan de:deu/ger dv:div dz:adp/dzo ee:ewe el:ell/gre en:eng eo:epo
es:spa et:ekk/est eu:baq/eus fa:fas/per/pes ff:fuc/ful fi:fin fj:fij fo:fao fr:fra/fre fy:fry ga:gle gd:gla
gl:glg gn:grn/gug gu:guj/prp gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv/scr ht:hat hu:hun hy:arm/hye hz:her
ia:ina id:ind ie:ile ig:ibo ii:iii ik:esk/ipk io:ido is:ice/isl it:ita iu:ike/iku ja:jpn jv:jav ka:geo/kat
kg:kng/kon ki:kik kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau/knc ks:kas ku:kmr/kur kv:kom/kpv kw:cor
ky:kir la:lat lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav/lvs mg:mlg/plt mh:mah mi:mao/mri
mk:mac/mkd ml:mal mn:drh/khk/mon mr:mar ms:may/msa/zsm mt:mlt my:bur/mya na:nau nb:nob nd:nde ne:nep/npi
ng:ndo nl:dut/nld nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:ojg/oji om:gaz/orm or:ori/ory os:oss pa:pan
pi:pli pl:pol ps:pbu/pus pt:por qu:que/quz rm:roh rn:run ro:mol/ron/rum ru:rus rw:kin sa:cls/san sc:src/srd
sd:snd se:sme sg:sag sh:hbs si:sin sk:slk/slo sl:slv sm:smo sn:sna so:som sq:alb/als/sqi sr:scc/srp ss:ssw
st:sot su:sun sv:swe sw:swa/swh ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso
tt:tat tw:twi ty:tah ug:uig uk:ukr ur:urd uz:uzb/uzn ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:ydd/yid
yo:yor za:zha/zyb zh:chi/cmn/zho zu:zul
"""
"""All of ISO 639-1, each with what ISO 639-2 and 639-3 have for it, as CLDR says."""

THREE_LETTERS = "ast bgn blo chr dsb fil hsb kok nso pcm quc rhg shn syr und vec yue"
"""Of ISO 639-3, for languages without a shorter one that CLDR has names in; `und` is not determined."""

_SHORT = {long: one[:2] for one in CODES.split() for long in one[3:].split("/")}
LANGUAGES = frozenset([*_SHORT.values(), *THREE_LETTERS.split()])


def language_of(code: str) -> str:
    """Return the code of a language, such as de, DE-at or zh-Hant; of deu it is de; "": it is of none."""
    first, dash, rest = code.partition("-")
    first = _SHORT.get(first.lower(), first)
    return f"{first}{dash}{rest}" if first.lower() in LANGUAGES else ""

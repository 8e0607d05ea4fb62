"""The verbs of the built-in corpus, and what is said with them: places, times, tools, reasons. Plain tables again.

Who does what a verb says, to whom and where, are strings of noun names and tags, which `lexicon.select` resolves. The
tables know nothing of sentences, inflection or particles: they hold only what no rule can give.
"""

from heedful.data.grammar.entries import Dilemma, Preposition, Time, Verb

# fmt: off
_SEEN = "people animals buildings eiffel_tower river lake mountain bridge tree boat car"

VERBS = (
    Verb("see", "see saw seen", "sehen sieht sah gesehen", "보/보아", "people animals", _SEEN, cannot=True),
    Verb("watch", "watch watched watched", "beobachten beobachtet beobachtete beobachtet", "지켜보/지켜보아",
         "people animals", "people animals"),
    Verb("love", "love loved loved", "lieben liebt liebte geliebt", "사랑하/사랑해", "people", "people animals"),
    Verb("like", "like liked liked", "mögen mag mochte gemocht", "좋아하/좋아해", "people",
         "people animals foods city"),
    Verb("know", "know knew known", "kennen kennt kannte gekannt", "알/알아", "people", "people city",
         korean_negated="모르/몰라"),
    Verb("follow", "follow followed followed", "folgen folgt folgte gefolgt", "따라가/따라가", "people animals",
         "people animals", auxiliary="sein", case="dat"),
    Verb("help", "help helped helped", "helfen hilft half geholfen", "돕/도와/도우", "people", "people animals",
         case="dat"),
    Verb("thank", "thank thanked thanked", "danken dankt dankte gedankt", "감사하/감사해", "people", "people",
         case="dat", particle="에게"),
    Verb("visit", "visit visited visited", "besuchen besucht besuchte besucht", "방문하/방문해", "people",
         "people castle city school eiffel_tower"),
    Verb("call", "call called called", "anrufen ruft rief angerufen", "전화하/전화해", "people", "people", prefix="an",
         particle="에게"),
    Verb("look", "look looked looked", "ansehen sieht sah angesehen", "바라보/바라보아", "people",
         "animals picture flower buildings miniature_tower eiffel_tower dress", english_particle="at", prefix="an"),
    Verb("pick", "pick picked picked", "aufheben hebt hob aufgehoben", "줍/주워/주우", "people",
         "stone key hat letter book bag apple flower", english_particle="up", prefix="auf"),
    Verb("read", "read read read", "lesen liest las gelesen", "읽/읽어", "people", "texts"),
    Verb("write", "write wrote written", "schreiben schreibt schrieb geschrieben", "쓰/써", "people", "letter book"),
    Verb("draw", "draw drew drawn", "zeichnen zeichnet zeichnete gezeichnet", "그리/그려", "people",
         "animals tree flower buildings bridge mountain eiffel_tower miniature_tower"),
    Verb("buy", "buy bought bought", "kaufen kauft kaufte gekauft", "사/사", "people -child", "goods", habitual=False),
    Verb("sell", "sell sold sold", "verkaufen verkauft verkaufte verkauft", "팔/팔아", "people -child",
         "goods horse cow", habitual=False),
    Verb("find", "find found found", "finden findet fand gefunden", "찾/찾아", "people", "things loads cave letter",
         cannot=True, habitual=False),
    Verb("carry", "carry carried carried", "tragen trägt trug getragen", "나르/날라", "people", "loads"),
    Verb("open", "open opened opened", "öffnen öffnet öffnete geöffnet", "열/열어", "people",
         "openings box bag letter"),
    Verb("close", "close closed closed", "schließen schließt schloss geschlossen", "닫/닫아", "people", "openings box"),
    Verb("build", "build built built", "bauen baut baute gebaut", "짓/지어/지으", "adults", "buildings bridge wall",
         habitual=False),
    Verb("eat", "eat ate eaten", "essen isst aß gegessen", "먹/먹어", "people", "foods -fish"),
    # German has another word for what animals do; English and Korean have not.
    Verb("feed_on", "eat ate eaten", "fressen frisst fraß gefressen", "먹/먹어", "animals", "foods"),
    Verb("drink", "drink drank drunk", "trinken trinkt trank getrunken", "마시/마셔", "people animals", "drinks"),
    Verb("catch", "catch caught caught", "fangen fängt fing gefangen", "잡/잡아", "hunters man boy farmer", "prey fish",
         habitual=False),
    Verb("cross", "cross crossed crossed", "überqueren überquert überquerte überquert", "건너/건너", "people animals",
         "ways river field valley"),
    Verb("enter", "enter entered entered", "betreten betritt betrat betreten", "들어가/들어가", "people animals",
         "rooms -school", particle="에"),
    Verb("pull", "pull pulled pulled", "ziehen zieht zog gezogen", "끌/끌어", "haulers", "vehicles -bicycle box"),
    Verb("climb", "climb climbed climbed", "klettern klettert kletterte geklettert", "올라가/올라가", "climbers people",
         "walls ladder mountain tree tower", auxiliary="sein", preposition="auf", particle="에"),
    Verb("roam", "roam roamed roamed", "streifen streift streifte gestreift", "돌아다니/돌아다녀",
         "animals people -child", "lands city", auxiliary="sein", preposition="durch"),
)

STATIVE = ("love", "like", "know")
RECIPROCAL = ("love", "like", "know", "see", "watch", "help", "thank", "visit", "call", "follow")

GIVING = (
    Verb("give", "give gave given", "geben gibt gab gegeben", "주/주어", "people", "presents apple carrot bag"),
    Verb("show", "show showed shown", "zeigen zeigt zeigte gezeigt", "보여주/보여주어", "people",
         "presents dress boat"),
    Verb("send", "send sent sent", "schicken schickt schickte geschickt", "보내/보내", "people", "presents -key"),
    Verb("bring", "bring brought brought", "bringen bringt brachte gebracht", "가져다주/가져다주어", "people",
         "presents foods drinks -fish chair basket"),
)

_SEATS = "mat chair table bed roof wall"
_BEHIND = "house castle school tree wall tower"
_INSIDE = "forest house garden castle kitchen"

BEING = (
    Verb("sit", "sit sat sat", "sitzen sitzt saß gesessen", "앉/앉아", "people animals -horse -cow -camel",
         particle="에", places={"on": _SEATS, "under": "tree table bridge", "behind": _BEHIND, "in_front_of": _BEHIND}),
    Verb("sleep", "sleep slept slept", "schlafen schläft schlief geschlafen", "자/자", "people animals",
         particle="에서",
         places={"on": "mat bed roof", "under": "tree table bridge", "in": _INSIDE, "behind": _BEHIND}),
    Verb("wait", "wait waited waited", "warten wartet wartete gewartet", "기다리/기다려", "people animals",
         particle="에서", places={"on": "bridge", "under": "tree bridge", "in": _INSIDE + " city", "behind": _BEHIND,
         "in_front_of": _BEHIND}),
    Verb("play", "play played played", "spielen spielt spielte gespielt", "놀/놀아",
         "boy girl child dog cat rabbit mouse",
         particle="에서", places={"on": "field", "under": "tree table", "in": _INSIDE, "behind": _BEHIND}),
    Verb("sing", "sing sang sung", "singen singt sang gesungen", "노래하/노래해", "people bird", particle="에서",
         places={"on": "roof bridge", "in": _INSIDE, "in_front_of": _BEHIND}),
    Verb("dance", "dance danced danced", "tanzen tanzt tanzte getanzt", "춤추/춤추어", "people", particle="에서",
         places={"on": "table bridge field", "in": _INSIDE, "in_front_of": _BEHIND}),
    Verb("live", "live lived lived", "leben lebt lebte gelebt", "살/살아", "people animals", particle="에",
         places={"in": "forest house castle city cave valley", "under": "bridge", "behind": "mountain"}),
    Verb("swim", "swim swam swum", "schwimmen schwimmt schwamm geschwommen", "헤엄치/헤엄쳐",
         "people dog bear duck fish", particle="에서", auxiliary="sein", places={"in": "river lake"}),
)

MOVING = (
    Verb("run", "run ran run", "laufen läuft lief gelaufen", "달려가/달려가", "people animals", auxiliary="sein",
         places={"into": "forest house garden castle school kitchen cave city"}),
    Verb("jump", "jump jumped jumped", "springen springt sprang gesprungen", "뛰어오르/뛰어올라",
         "boy girl child climbers -bear dog", auxiliary="sein", places={"onto": "mat chair table bed wall"}),
    Verb("fly", "fly flew flown", "fliegen fliegt flog geflogen", "날아가/날아가", "flyers", auxiliary="sein",
         places={"over": "river lake forest house castle bridge field valley mountain city",
         "into": "forest garden cave"}),
)

GO = Verb("go", "go went gone", "fahren fährt fuhr gefahren", "가/가", "people", auxiliary="sein",
          places={"to": "school castle river lake mountain bridge eiffel_tower"})

# The reasons for which people are happy, sad, laugh or cry are other people's deeds.
LAUGH = Verb("laugh", "laugh laughed laughed", "lachen lacht lachte gelacht", "웃/웃어", "people")
CRY = Verb("cry", "cry cried cried", "weinen weint weinte geweint", "울/울어", "people")

CLAIMS = (
    Verb("say", "say said said", "sagen sagt sagte gesagt", "말하/말해", "people", particle="고"),
    Verb("think", "think thought thought", "denken denkt dachte gedacht", "생각하/생각해", "people", particle="고"),
    Verb("believe", "believe believed believed", "glauben glaubt glaubte geglaubt", "믿/믿어", "people", particle="고"),
    Verb("be_aware", "know knew known", "wissen weiß wusste gewusst", "알고 있/알고 있어", "people",
         particle="는 것을"),
)

VERB_NAMED = {verb.name: verb for verb in (*VERBS, *GIVING, *BEING, *MOVING, GO, LAUGH, CRY, *CLAIMS)}

PREPOSITION_NAMED = {
    "on": Preposition("on", "auf", "dat", "위", ""),
    "under": Preposition("under", "unter", "dat", "아래", ""),
    "in": Preposition("in", "in", "dat", "", ""),
    "behind": Preposition("behind", "hinter", "dat", "뒤", ""),
    "in_front_of": Preposition("in front of", "vor", "dat", "앞", ""),
    "into": Preposition("into", "in", "acc", "", "로"),
    "onto": Preposition("onto", "auf", "acc", "위", "로"),
    "over": Preposition("over", "über", "acc", "위", "로"),
    "to": Preposition("to", "zu", "dat", "", "에"),
}

TIMES = {
    "past": (Time("yesterday", "gestern", "어제"), Time("last week", "letzte Woche", "지난주에"),
             Time("this morning", "heute Morgen", "오늘 아침에")),
    "will": (Time("tomorrow", "morgen", "내일"), Time("next week", "nächste Woche", "다음 주에")),
    "present": (Time("every day", "jeden Tag", "매일"), Time("every morning", "jeden Morgen", "매일 아침")),
}

# What people and animals do at a place, and to what: nobody sees a lake in the kitchen.
SETTLED = {"see": "people animals", "watch": "people animals", "help": "people animals", "read": "texts",
           "write": "letter book", "draw": "animals flower", "eat": "foods -fish", "feed_on": "foods",
           "drink": "drinks", "find": "things", "sell": "goods"}
SETTINGS = {"in": "garden forest castle kitchen city", "under": "tree bridge", "in_front_of": "house castle school",
            "behind": "house wall tower"}

# Verb, tools, and what is worked on with them.
TOOLS = (("write", "pencil", "letter book"), ("draw", "pencil brush", "animals tree flower buildings bridge"),
         ("open", "key", "door box"), ("open", "knife", "letter box"), ("eat", "spoon", "soup cake egg"))
TRANSPORT = "train car bicycle"

# What is made is not old, and what lasts is not said of one morning.
ODD_PAIRS = (("write", "old"), ("build", "old"))
LASTING = ("live",)

_ANYONE = "animals adults"

DILEMMAS = (
    Dilemma("cross", _ANYONE, "road river bridge field valley", "hungry thirsty brave",
            "narrow: river road valley; short: bridge road", "tired weak lazy sleepy sick",
            "wide: road river field valley; deep: river valley; slippery: road bridge; long: road bridge"),
    Dilemma("climb", "climbers adults", "wall roof ladder mountain tree tower", "hungry brave",
            "low: wall roof", "tired weak lazy sleepy sick",
            "high: wall roof mountain; tall: tree tower; slippery: wall roof ladder; long: ladder"),
    Dilemma("enter", _ANYONE, "house castle cave kitchen", "brave hungry thirsty tired",
            "empty: house castle cave kitchen", "lazy sleepy sick", "dark: house castle cave kitchen"),
    Dilemma("feed_on", "animals", "foods", "hungry",
            "fresh: bread apple carrot fish egg; sweet: apple carrot cake; soft: bread cheese cake",
            "tired full sick sleepy",
            "hard: bread cheese carrot; salty: soup cheese bread; bitter: carrot soup; sweet: apple cake"),
    Dilemma("eat", "adults", "foods -fish", "hungry",
            "fresh: bread apple carrot egg; sweet: apple carrot cake; soft: bread cheese cake",
            "tired full sick sleepy",
            "hard: bread cheese carrot; salty: soup cheese bread; bitter: carrot soup; sweet: apple cake"),
    Dilemma("drink", _ANYONE, "drinks", "thirsty", "fresh: milk water juice; sweet: milk juice", "tired sick sleepy",
            "salty: water; bitter: water juice; sweet: juice milk"),
    Dilemma("pull", "haulers", "cart boat car box", "strong", "light: cart boat box", "tired weak lazy sick",
            "heavy: cart boat car box"),
    Dilemma("carry", "adults", "loads", "strong", "light: loads", "tired weak lazy sick", "heavy: loads"),
    Dilemma("buy", "man woman farmer doctor teacher", "car hat dress house picture bag bicycle boat bed table", "rich",
            "beautiful: dress picture house hat bag; cheap: car hat dress bag bicycle boat bed table", "poor",
            "expensive: car hat dress house picture bag bicycle boat bed table"),
    Dilemma("read", "adults", "texts", "", "interesting: texts; short: book letter", "tired sleepy sick lazy",
            "long: book letter; boring: texts"),
)
# fmt: on

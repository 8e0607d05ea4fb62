"""The nouns and adjectives of the built-in corpus: plain tables, one row per concept, with its form in three languages.

A row also says what goes with what (selectional restrictions): which nouns an adjective fits, as a string of noun names
(singular) and tags (plural); `select` turns it into nouns, and "-name" takes nouns out. The tables know nothing of
sentences, inflection or particles: they hold only what no rule can give. A noun without a Korean counter is never
counted, made plural or indefinite.
"""

from collections.abc import Iterable

from heedful.data.grammar.entries import Adjective, Noun


def _person(english: str, plural: str, german: str, korean: str, pronoun: str, oblique: str = "") -> Noun:
    gender, nominative, genitive, german_plural = german.split()
    # German wavers between es and sie for girls and children: they are no antecedents, hence no "adults".
    tags = ("people",) if gender == "n" else ("people", "adults")
    return Noun(
        english, english, plural, gender, nominative, german_plural, korean, "명", tags, pronoun, genitive, oblique
    )


def _animal(english: str, plural: str, german: str, korean: str, tags: str = "", oblique: str = "") -> Noun:
    gender, nominative, german_plural = german.split()
    tags_ = ("animals", *tags.split())
    return Noun(english, english, plural, gender, nominative, german_plural, korean, "마리", tags_, oblique=oblique)


def _thing(english: str, plural: str, german: str, korean: str, counter: str, tags: str) -> Noun:
    gender, nominative, german_plural = german.split()
    name = english.lower().replace(" ", "_")
    return Noun(name, english, plural, gender, nominative, german_plural, korean, counter, tuple(tags.split()))


def _colour(english: str, german: str, korean: str, fits: str, modifier: str = "") -> Adjective:
    return Adjective(english, english, german, korean, fits, modifier, kind="colour", degrees="")


# fmt: off
NOUNS = (
    _person("man", "men", "m Mann Mannes Männer", "남자", "he"),
    _person("woman", "women", "f Frau Frau Frauen", "여자", "she"),
    _person("boy", "boys", "m Junge Jungen Jungen", "소년", "he", "Jungen"),
    _person("girl", "girls", "n Mädchen Mädchens Mädchen", "소녀", "she"),
    _person("child", "children", "n Kind Kindes Kinder", "아이", "it"),
    _person("king", "kings", "m König Königs Könige", "왕", "he"),
    _person("queen", "queens", "f Königin Königin Königinnen", "여왕", "she"),
    _person("princess", "princesses", "f Prinzessin Prinzessin Prinzessinnen", "공주", "she"),
    _person("farmer", "farmers", "m Bauer Bauern Bauern", "농부", "he", "Bauern"),
    _person("doctor", "doctors", "m Arzt Arztes Ärzte", "의사", "he"),
    _person("teacher", "teachers", "m Lehrer Lehrers Lehrer", "교사", "he"),

    _animal("animal", "animals", "n Tier Tiere", "동물", "climbers haulers"),
    _animal("creature", "creatures", "n Wesen Wesen", "생물", "climbers haulers furry"),
    _animal("dog", "dogs", "m Hund Hunde", "개", "haulers hunters furry"),
    _animal("cat", "cats", "f Katze Katzen", "고양이", "climbers hunters furry"),
    _animal("bird", "birds", "m Vogel Vögel", "새", "flyers prey"),
    _animal("horse", "horses", "n Pferd Pferde", "말", "haulers"),
    _animal("cow", "cows", "f Kuh Kühe", "소", "haulers"),
    _animal("mouse", "mice", "f Maus Mäuse", "쥐", "climbers prey furry"),
    _animal("rabbit", "rabbits", "n Kaninchen Kaninchen", "토끼", "prey furry"),
    _animal("fox", "foxes", "m Fuchs Füchse", "여우", "climbers hunters furry"),
    _animal("bear", "bears", "m Bär Bären", "곰", "climbers haulers hunters", "Bären"),
    _animal("lion", "lions", "m Löwe Löwen", "사자", "climbers hunters", "Löwen"),
    _animal("goat", "goats", "f Ziege Ziegen", "염소", "climbers haulers"),
    _animal("duck", "ducks", "f Ente Enten", "오리", "flyers prey"),
    _animal("camel", "camels", "n Kamel Kamele", "낙타", "haulers"),
    _animal("pig", "pigs", "n Schwein Schweine", "돼지"),

    _thing("bread", "", "n Brot -", "빵", "", "foods goods"),
    _thing("apple", "apples", "m Apfel Äpfel", "사과", "개", "foods goods"),
    _thing("carrot", "carrots", "f Karotte Karotten", "당근", "개", "foods goods"),
    _thing("fish", "", "m Fisch -", "물고기", "", "foods"),
    _thing("soup", "", "f Suppe -", "수프", "", "foods"),
    _thing("cheese", "", "m Käse -", "치즈", "", "foods goods"),
    _thing("cake", "cakes", "m Kuchen Kuchen", "케이크", "개", "foods goods"),
    _thing("egg", "eggs", "n Ei Eier", "달걀", "개", "foods goods"),
    _thing("milk", "", "f Milch -", "우유", "", "drinks"),
    _thing("water", "", "n Wasser -", "물", "", "drinks"),
    _thing("juice", "", "m Saft -", "주스", "", "drinks"),
    _thing("book", "books", "n Buch Bücher", "책", "권", "texts goods presents"),
    _thing("letter", "letters", "m Brief Briefe", "편지", "통", "texts presents"),
    _thing("newspaper", "newspapers", "f Zeitung Zeitungen", "신문", "부", "texts"),
    _thing("picture", "pictures", "n Bild Bilder", "그림", "점", "things goods presents"),
    _thing("key", "keys", "m Schlüssel Schlüssel", "열쇠", "개", "things presents"),
    _thing("hat", "hats", "m Hut Hüte", "모자", "개", "things goods presents"),
    _thing("dress", "dresses", "n Kleid Kleider", "드레스", "벌", "things goods"),
    _thing("flower", "flowers", "f Blume Blumen", "꽃", "송이", "plants goods presents"),
    _thing("bag", "bags", "f Tasche Taschen", "가방", "개", "things goods loads"),
    _thing("box", "boxes", "f Kiste Kisten", "상자", "개", "things loads"),
    _thing("basket", "baskets", "m Korb Körbe", "바구니", "개", "things goods loads"),
    _thing("stone", "stones", "m Stein Steine", "돌", "개", "loads"),
    _thing("table", "tables", "m Tisch Tische", "탁자", "개", "furniture goods loads"),
    _thing("chair", "chairs", "m Stuhl Stühle", "의자", "개", "furniture goods loads"),
    _thing("bed", "beds", "n Bett Betten", "침대", "개", "furniture goods"),
    _thing("mat", "mats", "f Matte Matten", "매트", "장", "furniture"),
    _thing("door", "", "f Tür -", "문", "", "openings"),
    _thing("window", "", "n Fenster -", "창문", "", "openings"),
    _thing("car", "cars", "n Auto Autos", "자동차", "대", "vehicles goods"),
    _thing("bicycle", "bicycles", "n Fahrrad Fahrräder", "자전거", "대", "vehicles goods"),
    _thing("boat", "boats", "n Boot Boote", "배", "척", "vehicles goods"),
    _thing("cart", "carts", "m Karren Karren", "수레", "대", "vehicles"),
    _thing("train", "", "m Zug -", "기차", "", "transport"),
    _thing("house", "houses", "n Haus Häuser", "집", "채", "buildings rooms"),
    _thing("castle", "castles", "n Schloss Schlösser", "성", "채", "buildings rooms"),
    _thing("school", "", "f Schule -", "학교", "", "buildings rooms"),
    _thing("tower", "", "m Turm -", "탑", "", "towers buildings"),
    _thing("miniature tower", "miniature towers", "m Miniaturturm Miniaturtürme", "모형 탑", "개",
           "towers goods presents"),
    _thing("Eiffel Tower", "", "m Eiffelturm -", "에펠탑", "", "towers sights"),
    _thing("kitchen", "", "f Küche -", "부엌", "", "rooms"),
    _thing("cave", "", "f Höhle -", "동굴", "", "rooms"),
    _thing("bridge", "", "f Brücke -", "다리", "", "ways"),
    _thing("road", "", "f Straße -", "도로", "", "ways"),
    _thing("wall", "", "f Mauer -", "담", "", "walls"),
    _thing("roof", "", "n Dach -", "지붕", "", "walls"),
    _thing("ladder", "ladders", "f Leiter Leitern", "사다리", "개", "ladders goods"),
    _thing("tree", "trees", "m Baum Bäume", "나무", "그루", "plants"),
    _thing("forest", "", "m Wald -", "숲", "", "lands"),
    _thing("garden", "", "m Garten -", "정원", "", "lands"),
    _thing("field", "", "n Feld -", "들판", "", "lands"),
    _thing("valley", "", "n Tal -", "골짜기", "", "lands"),
    _thing("city", "", "f Stadt -", "도시", "", "cities"),
    _thing("river", "", "m Fluss -", "강", "", "streams"),
    _thing("lake", "", "m See -", "호수", "", "streams"),
    _thing("mountain", "", "m Berg -", "산", "", "mountains"),
    _thing("pencil", "", "m Bleistift -", "연필", "", "tools"),
    _thing("brush", "", "m Pinsel -", "붓", "", "tools"),
    _thing("knife", "", "n Messer -", "칼", "", "tools"),
    _thing("spoon", "", "m Löffel -", "숟가락", "", "tools"),
)

_PAINTED = "furniture vehicles hat dress bag box basket book house miniature_tower"

ADJECTIVES = (
    _colour("blue", "blau", "파랗/파래/파라", f"creature bird flower door {_PAINTED}"),
    _colour("red", "rot", "빨갛/빨개/빨가", f"creature bird flower door {_PAINTED}"),
    _colour("white", "weiß", "하얗/하얘/하야", f"animals -bear -fox wall flower {_PAINTED}"),
    _colour("black", "schwarz", "검/검어", f"animals -fox -lion {_PAINTED}"),
    _colour("green", "grün", "", f"creature bird door {_PAINTED}", "초록색"),
    Adjective("big", "big", "groß", "크/커", "animals -mouse buildings city loads garden tree lake field boat picture",
              comparatives="bigger größer", kind="look"),
    Adjective("small", "small", "klein", "작/작아",
              "animals buildings things loads furniture garden lake boat boy girl child",
              comparatives="smaller kleiner", kind="look"),
    Adjective("old", "old", "alt", "", "buildings rooms ways texts things furniture vehicles wall tree city "
              "miniature_tower ladder", "오래된", kind="age"),
    Adjective("aged", "old", "alt", "", "man woman king queen farmer doctor teacher animals", "늙은", kind="age"),
    Adjective("young", "young", "jung", "", "man woman king queen farmer doctor teacher", "젊은", kind="age"),
    Adjective("new", "new", "neu", "", "house school bridge things book newspaper furniture vehicles ladder", "새",
              kind="age"),
    Adjective("beautiful", "beautiful", "schön", "아름답/아름다워/아름다우",
              "woman queen princess bird horse castle city "
              "garden lake valley flower dress picture creature miniature_tower", kind="look", degrees="very"),
    Adjective("fluffy", "fluffy", "flauschig", "복슬복슬하/복슬복슬해", "furry mat hat", kind="look", degrees="very"),
    Adjective("verdant", "verdant", "sattgrün", "", "lands", "푸르른"),
    Adjective("long", "long", "lang", "길/길어/길", "ways river letter book ladder table",
              comparatives="longer länger"),
    Adjective("short", "short", "kurz", "짧/짧아", "ways letter book ladder", comparatives="shorter kürzer"),
    Adjective("wide", "wide", "breit", "넓/넓어", "ways river field valley", comparatives="wider breiter"),
    Adjective("narrow", "narrow", "schmal", "좁/좁아", "ways river valley", comparatives="narrower schmaler"),
    Adjective("deep", "deep", "tief", "깊/깊어", "streams valley cave", comparatives="deeper tiefer"),
    Adjective("high", "high", "hoch", "높/높아", "walls mountain bridge", german_stem="hoh",
              comparatives="higher höher"),
    Adjective("tall", "tall", "hoch", "높/높아", "towers tree", german_stem="hoh", comparatives="taller höher"),
    Adjective("low", "low", "niedrig", "낮/낮아", "walls bridge table", comparatives="lower niedriger"),
    Adjective("slippery", "slippery", "rutschig", "미끄럽/미끄러워/미끄러우", "ways walls ladder"),
    Adjective("dark", "dark", "dunkel", "어둡/어두워/어두우", "rooms forest", german_stem="dunkl"),
    Adjective("empty", "empty", "leer", "비어 있/비어 있어", "rooms box basket bag", "빈", degrees=""),
    Adjective("heavy", "heavy", "schwer", "무겁/무거워/무거우", "loads cart", comparatives="heavier schwerer"),
    Adjective("light", "light", "leicht", "가볍/가벼워/가벼우", "loads cart bicycle", comparatives="lighter leichter"),
    Adjective("hot", "hot", "heiß", "뜨겁/뜨거워/뜨거우", "soup milk water"),
    Adjective("fresh", "fresh", "frisch", "신선하/신선해", "foods -soup -cake -cheese drinks", degrees="very"),
    Adjective("sweet", "sweet", "süß", "달/달아/달", "apple carrot cake juice milk", "달콤한"),
    Adjective("salty", "salty", "salzig", "짜/짜", "soup cheese bread water"),
    Adjective("bitter", "bitter", "bitter", "쓰/써", "juice water soup carrot"),
    Adjective("hard", "hard", "hart", "딱딱하/딱딱해", "bread cheese carrot bed chair"),
    Adjective("soft", "soft", "weich", "부드럽/부드러워/부드러우", "bread cheese cake mat"),
    Adjective("expensive", "expensive", "teuer", "비싸/비싸", "goods -foods", german_stem="teur",
              comparatives="more_expensive teurer"),
    Adjective("cheap", "cheap", "billig", "싸/싸", "goods", comparatives="cheaper billiger"),
    Adjective("interesting", "interesting", "interessant", "재미있/재미있어", "texts", "재미있는", degrees="very"),
    Adjective("boring", "boring", "langweilig", "지루하/지루해", "texts"),
    Adjective("tired", "tired", "müde", "피곤하/피곤해", "people animals", german_stem="müd"),
    Adjective("weak", "weak", "schwach", "약하/약해", "people animals", comparatives="weaker schwächer"),
    Adjective("strong", "strong", "stark", "강하/강해", "people -child haulers", comparatives="stronger stärker",
              degrees="very"),
    Adjective("lazy", "lazy", "faul", "게으르/게을러", "people animals"),
    Adjective("sleepy", "sleepy", "schläfrig", "졸리/졸려", "people animals"),
    Adjective("sick", "sick", "krank", "아프/아파", "people animals"),
    Adjective("hungry", "hungry", "hungrig", "배고프/배고파", "people animals"),
    Adjective("thirsty", "thirsty", "durstig", "목마르/목말라", "people animals"),
    Adjective("full", "full", "satt", "배부르/배불러", ""),
    Adjective("brave", "brave", "mutig", "용감하/용감해", "people animals", comparatives="braver mutiger",
              degrees="very"),
    Adjective("clever", "clever", "klug", "영리하/영리해", "people animals", comparatives="cleverer klüger",
              degrees="very"),
    Adjective("happy", "happy", "glücklich", "행복하/행복해", "people animals", degrees="very"),
    Adjective("sad", "sad", "traurig", "슬프/슬퍼", "people animals"),
    Adjective("rich", "rich", "reich", "부유하/부유해", "adults -boy", comparatives="richer reicher", degrees="very"),
    Adjective("poor", "poor", "arm", "가난하/가난해", "people -king -queen -princess", comparatives="poorer ärmer"),
)

# What is true of which kinds of animals, and not of the others.
TRAITS = {"clever": "dog cat fox horse goat pig", "brave": "lion bear dog", "strong": "lion bear horse cow camel",
          "big": "lion bear horse cow camel", "small": "mouse bird rabbit duck cat", "lazy": "cat pig bear"}

# From small to big, where everybody knows it; a comparison does not say the opposite.
SIZES = ("mouse bird duck rabbit cat fox dog goat pig lion bear cow horse camel", "miniature_tower tower eiffel_tower")
GROWING, SHRINKING = ("big", "strong", "tall"), ("small", "weak")

NUMBERS = {
    2: ("two", "zwei", "두"), 3: ("three", "drei", "세"), 4: ("four", "vier", "네"), 5: ("five", "fünf", "다섯"),
    6: ("six", "sechs", "여섯"), 7: ("seven", "sieben", "일곱"), 8: ("eight", "acht", "여덟"),
    9: ("nine", "neun", "아홉"), 10: ("ten", "zehn", "열"),
}
# fmt: on

NOUN_NAMED = {noun.name: noun for noun in NOUNS}
ADJECTIVE_NAMED = {adjective.name: adjective for adjective in ADJECTIVES}


def _matching(word: str) -> Iterable[str]:
    return (noun.name for noun in NOUNS if word == noun.name or word in noun.tags)


def select(words: str) -> tuple[Noun, ...]:
    """The nouns that names and tags stand for, in the order of the table; "-name" and "-tag" take nouns out again."""
    chosen: dict[str, None] = {}
    for word in sorted(words.split(), key=lambda word: word.startswith("-")):
        if word.startswith("-"):
            chosen = {name: None for name in chosen if name not in set(_matching(word[1:]))}
        else:
            chosen.update(dict.fromkeys(_matching(word)))
    return tuple(noun for noun in NOUNS if noun.name in chosen)

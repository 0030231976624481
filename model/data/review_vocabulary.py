"""Vocabulary of the generated reviews: domains, common and rare opinion words, and neutral sentences.

The rules are in `review_grammar.py`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of reviewed item. Aspects starting with `*` take a plural verb."""

    thing: str
    aspects: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    quirks: tuple[tuple[str, str, int], ...]  # (aspect, adjective, polarity): the noun decides what the word means
    standards: tuple[str, ...]
    fillers: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


GOOD = _words(
    "good, great, excellent, wonderful, lovely, superb, delightful, pleasant, impressive, charming, brilliant,"
    "fantastic, satisfying, enjoyable, perfect, beautiful, memorable, fine, solid, splendid"
)
BAD = _words(
    "bad, poor, terrible, awful, disappointing, dreadful, horrible, unpleasant, boring, annoying, weak, mediocre,"
    "frustrating, tedious, dull, ugly, shoddy, pathetic, lousy, miserable"
)
RARE_GOOD = _words(
    "exquisite, sublime, stellar, magnificent, enchanting, captivating, exemplary, marvellous, top notch,"
    "first rate, glorious, dazzling, terrific, admirable, praiseworthy, outstanding"
)
RARE_BAD = _words(
    "abysmal, atrocious, woeful, dismal, ghastly, appalling, insufferable, lamentable, second rate, dire,"
    "deplorable, wretched, abominable, underwhelming, tiresome, inferior"
)

INTENSITY = {
    "slightly": 0.5,
    "somewhat": 0.5,
    "a little": 0.5,
    "mildly": 0.5,
    "": 1.0,
    "very": 1.5,
    "really": 1.5,
    "truly": 1.5,
    "utterly": 2.0,
    "absolutely": 2.0,
    "incredibly": 2.0,
    "extremely": 2.0,
}
NEGATIONS = {
    "not": -1.0,
    "never": -1.0,
    "hardly": -1.0,
    "scarcely": -1.0,
    "not very": -1.0,
    "not exactly": -1.0,
    "not at all": -1.5,
    "far from": -1.5,
    "by no means": -1.5,
    "anything but": -1.5,
    # These contain a negative word but assert the adjective.
    "never less than": 1.5,
    "nothing short of": 2.0,
    "nothing if not": 1.5,
}
VERBS = {  # past, base form, score
    "loved": ("love", 1.5),
    "enjoyed": ("enjoy", 1.0),
    "liked": ("like", 1.0),
    "admired": ("admire", 1.0),
    "adored": ("adore", 1.5),
    "appreciated": ("appreciate", 1.0),
    "hated": ("hate", -1.5),
    "disliked": ("dislike", -1.0),
    "regretted": ("regret", -1.0),
    "despised": ("despise", -1.5),
    "resented": ("resent", -1.0),
    "deplored": ("deplore", -1.0),
}
BETTER = _words("better, finer, stronger, nicer, more enjoyable, more impressive, smarter")
WORSE = _words("worse, weaker, poorer, duller, more annoying, more tedious, sloppier")

SUBJECTS = _words("I, we, my wife, my brother, my friends, the whole family, everyone at our table, my colleague")
NOBODY = _words("nobody in our group, none of us, no one I know")
DAYS = _words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")
MONTHS = _words("January, February, March, April, May, June, July, August, September, October, November, December")
PLACES = _words(
    "London, Leeds, Bristol, Glasgow, Dublin, Boston, Denver, Toronto, Sydney, Berlin, Vienna, Lisbon, Madrid,"
    "Paris, Lyon, Turin, Naples, Athens, Oslo, Bergen, Helsinki, Riga, Warsaw, Prague, Zurich, Geneva, Antwerp,"
    "Utrecht, Hamburg, Munich, Chicago, Houston, Seattle, Portland, Atlanta, Montreal, Lima, Bogota, Nairobi,"
    "Accra, Cairo, Mumbai, Kyoto, Osaka, Seoul, Hanoi, Perth, Auckland, Wellington, Cardiff"
)
COUNTS = _words("two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, fifteen, twenty, thirty, 14, 25")
NAMES = _words(
    "Anna, Ben, Carla, David, Elena, Felix, Grace, Henry, Ines, Jakob, Karin, Leo, Maria, Nora, Oscar, Paula,"
    "Quentin, Rosa, Simon, Tessa, Ugo, Vera, Walter, Yara, Zoe, Amir, Bianca, Cedric, Dora, Emil, Fatima, Georg,"
    "Hannah, Ivan, Julia, Kofi, Lina, Marco, Nadia, Omar, Priya, Ruth, Stefan, Tomas, Ursula, Victor, Wanda"
)
ORDERS = _words("first, second, third, fourth, fifth, sixth, seventh")
RELATIONS = _words(
    "sister, brother, neighbour, cousin, uncle, aunt, dentist, teacher, boss, flatmate, nephew, grandfather,"
    "landlord, hairdresser, colleague, gardener, accountant, doctor"
)
COLOURS = _words("red, blue, green, yellow, grey, brown, black, white, orange, purple")
OBJECTS = _words(
    "umbrella, bicycle, suitcase, newspaper, lamp, notebook, ladder, clock, basket, curtain, bottle, ticket,"
    "jacket, mirror, carpet, fountain, statue, calendar, envelope, piano, bench, blanket, hammer, window, bucket,"
    "cupboard, elevator, parking lot, staircase, poster, vending machine, postbox, aquarium, wardrobe"
)
WEATHER = _words("raining, snowing, windy, cloudy, sunny, foggy, freezing, humid, drizzling, dark already")

ANY_FILLERS = (
    "This was in {month} .",
    "I am writing this on a {day} .",
    "My {relation} {name} told me about it .",
    "We live near {place} .",
    "I had read {count} other reviews before .",
    "It was my {order} time .",
    "There were {count} of us .",
    "I have kept the receipt from {month} .",
    "It was {weather} in {place} that {day} .",
    "There was a {colour} {object} next to the entrance .",
    "{name} and {name2} came along in {month} .",
    "My {relation} forgot a {colour} {object} there .",
    "{name} from {place} paid for {count} of us .",
)

DOMAINS = (
    Domain(
        thing="film",
        aspects=_words(
            "the acting, the plot, the script, the soundtrack, the ending, the direction, *the actors, *the dialogues,"
            "*the special effects, the photography, the film"
        ),
        good=_words("gripping, moving, funny, original, thrilling, clever"),
        bad=_words("predictable, wooden, pointless, overlong, silly, clumsy"),
        quirks=(("the plot", "unpredictable", 1), ("the soundtrack", "loud", -1), ("the ending", "surprising", 1)),
        standards=_words("the trailer, the first film, the book, the previous part, most films this year"),
        fillers=(
            "We saw the film in {place} on a {day} .",
            "The film runs for {count} quarters of an hour .",
            "It was shot near {place} with {count} cameras .",
        ),
    ),
    Domain(
        thing="restaurant",
        aspects=_words(
            "the food, the service, the soup, the dessert, the menu, the wine, *the waiters, *the starters,"
            "*the vegetables, the fish, the restaurant"
        ),
        good=_words("delicious, tasty, fresh, friendly, generous, crisp"),
        bad=_words("bland, greasy, stale, rude, overcooked, soggy"),
        quirks=(
            ("the soup", "cold", -1),
            ("the wine", "cold", 1),
            ("the bill", "small", 1),
            ("the dessert", "small", -1),
        ),
        standards=_words("the place next door, our last dinner, the old kitchen, most restaurants in town"),
        fillers=(
            "We had a table for {count} near the window .",
            "We ordered {count} dishes and a bottle of water .",
            "The restaurant opens on {day} at {count} .",
        ),
    ),
    Domain(
        thing="book",
        aspects=_words(
            "the story, the prose, the opening, the final chapter, the translation, the pacing, *the characters,"
            "*the illustrations, *the footnotes, the argument, the book"
        ),
        good=_words("vivid, elegant, lucid, witty, absorbing, profound"),
        bad=_words("confusing, shallow, repetitive, pretentious, muddled, lifeless"),
        quirks=(("the story", "unpredictable", 1), ("the pacing", "slow", -1), ("the pacing", "quick", 1)),
        standards=_words("the earlier novel, the film version, the first volume, most books of its kind"),
        fillers=(
            "I read the book on a train to {place} .",
            "The book has {count} parts and an index .",
            "It was printed in {place} in {month} .",
        ),
    ),
    Domain(
        thing="hotel",
        aspects=_words(
            "the room, the breakfast, the bed, the view, the bathroom, the location, *the receptionists, *the towels,"
            "*the corridors, the pool, the hotel"
        ),
        good=_words("spotless, cosy, spacious, quiet, comfortable, welcoming"),
        bad=_words("filthy, noisy, cramped, damp, smelly, shabby"),
        quirks=(("the room", "cold", -1), ("the bed", "small", -1), ("the breakfast", "plain", -1)),
        standards=_words("the photos, our last hotel, the hostel across the street, most hotels in the area"),
        fillers=(
            "We stayed for {count} nights in {month} .",
            "The hotel is {count} minutes from the station .",
            "Our room was on floor {count} .",
        ),
    ),
    Domain(
        thing="phone",
        aspects=_words(
            "the battery, the screen, the camera, the speaker, the keyboard, the design, *the buttons, *the updates,"
            "*the menus, the charger, the phone"
        ),
        good=_words("fast, bright, reliable, sturdy, sleek, responsive"),
        bad=_words("sluggish, fragile, dim, unreliable, bulky, buggy"),
        quirks=(("the battery", "unpredictable", -1), ("the charger", "slow", -1), ("the speaker", "loud", 1)),
        standards=_words("the old model, my last phone, the version from last year, most phones at this price"),
        fillers=(
            "I bought the phone in {place} in {month} .",
            "The box holds {count} cables and a booklet .",
            "I use it for {count} hours a day .",
        ),
    ),
    Domain(
        thing="concert",
        aspects=_words(
            "the band, the singer, the sound, the venue, the lighting, the encore, *the drums, *the musicians,"
            "*the seats, the show, the concert"
        ),
        good=_words("energetic, inspired, electric, tight, joyful, polished"),
        bad=_words("sloppy, lacklustre, muffled, chaotic, uninspired, shrill"),
        quirks=(("the encore", "surprising", 1), ("the venue", "cold", -1), ("the encore", "small", -1)),
        standards=_words("the last tour, the album, the support act, most concerts there"),
        fillers=(
            "The concert began at {count} on a {day} .",
            "They played in {place} before .",
            "We stood {count} rows from the stage .",
        ),
    ),
    Domain(
        thing="game",
        aspects=_words(
            "the gameplay, the tutorial, the music, the story mode, the map, the combat, *the controls, *the puzzles,"
            "*the graphics, the interface, the game"
        ),
        good=_words("addictive, inventive, smooth, polished, intuitive, immersive"),
        bad=_words("glitchy, clunky, unfair, grindy, laggy, unfinished"),
        quirks=(("the combat", "quick", 1), ("the music", "loud", -1), ("the map", "small", -1)),
        standards=_words("the demo, the previous game, the mobile version, most games of this studio"),
        fillers=(
            "I played it for {count} evenings in {month} .",
            "The game has {count} levels and a shop .",
            "The studio is based in {place} .",
        ),
    ),
)

"""Labels from models: any policy looks at screenshots or recorded episodes and says what it sees.

    report = await annotate(read_items(Path("shots"), "point", wishes), [policy], Path("labels"), settings)

One question (`items`) is asked several times, or of two models (`annotator`); how far the answers agree is the label's
confidence (`agreement`). Labels are on record from the moment they are made (`store`), and `review` puts them on a page
where a person accepts or rejects them. `questions` holds the four kinds of label: a point to click, a box, a caption,
a judgement.
"""

"""What the made-up letters say. Subjects with a project or a number in them differ from each other."""

from __future__ import annotations

from dataclasses import dataclass

# fmt: off
PROJECTS = (
    "Aurora", "Basalt", "Cobalt", "Delta", "Ember", "Falcon", "Glacier", "Horizon", "Indigo", "Juniper", "Keystone",
    "Lantern", "Meridian", "Nimbus", "Orchard", "Pioneer", "Quartz", "Ridge", "Saffron", "Tundra", "Umbra",
    "Verdant", "Willow", "Zephyr",
)
LABELS = ("Travel", "Receipts", "Family", "Project", "Urgent", "Reading", "Garden", "School", "Taxes", "Club")

# Between people: the subject, what the first letter says, and what the answers say.
TALKS = (
    ("Budget for {project}", ("Here is the first draft of the budget for {project}. What do you think?",
     "The travel costs look high to me.", "I have lowered them. Can we agree on this version?")),
    ("Minutes of the {project} meeting", ("Attached are the minutes of our last meeting about {project}.",
     "Thank you. Two names are missing from the list.", "Corrected, please see below.")),
    ("Review of {project}", ("Could you look at the report on {project} before Friday?",
     "I will read it tomorrow morning.")),
    ("Photos from {project}", ("The photos from our {project} weekend are ready.", "They are lovely, thank you!")),
    ("Next steps for {project}", ("We need to decide who does what for {project}.", "I can take the first two points.",
     "Then I take the rest.")),
    ("Question about {project}", ("I have a short question about {project}: who keeps the key?",
     "It is in the drawer next to the printer.")),
    ("Lunch after {project}", ("Shall we have lunch after the {project} workshop?", "Yes, gladly. Half past twelve?")),
    ("Draft contract {project}", ("The lawyers have sent the draft contract for {project}.",
     "Paragraph four needs work.", "Agreed, I will tell them.")),
    ("Visitors for {project}", ("Six visitors come to see {project} next month.", "I have booked the large room.")),
    ("Slides for {project}", ("Please find the slides for {project} attached.", "Very clear. I changed one number.")),
)
ATTACHED = ("budget", "minutes", "report", "slides", "contract", "plan", "photos", "list")
ENDINGS = ("pdf", "xlsx", "docx", "zip")

ORGANISATIONS = (
    ("Northwind Rail", "northwind-rail.example"), ("Bluebird Air", "bluebird-air.example"),
    ("Cityline Energy", "cityline-energy.example"), ("Marble Bank", "marble-bank.example"),
    ("Parcelo", "parcelo.example"), ("Fresh Basket", "fresh-basket.example"),
    ("Open Library", "open-library.example"), ("Summit Sports", "summit-sports.example"),
    ("Lumina Phone", "lumina-phone.example"), ("Harbour Hotel", "harbour-hotel.example"),
)
# From organisations: kind, subject, text. `{code}` and `{amount}` are in the text only.
LETTERS = (
    ("booking", "Your booking for {place} on {day}", "Thank you for booking. Your booking code is {code}. Keep it "
     "until the end of your journey."),
    ("invoice", "Invoice {number}", "Please find the details of invoice {number} below. The amount due is {amount}. "
     "It will be collected next week."),
    ("parcel", "Parcel {number} is on its way", "Your parcel {number} has left our depot. To collect it you need the "
     "code {code}."),
    ("news", "News {number}: {topic}", "In this issue: {topic}, readers' letters and a puzzle."),
    ("account", "Your card ending in {number}", "Your new card ending in {number} is ready. To activate it use the "
     "code {code}."),
)
PLACES = ("Lisbon", "Oslo", "Vienna", "Prague", "Porto", "Bergen", "Graz", "Ghent", "Turin", "Malaga")
NEWS = ("ten quiet places", "the long winter", "better bread", "trains at night", "new in spring", "books we liked")
SPAM = ("You have won a prize {number}", "Cheap watches {number}", "Your account {number} is closed",
        "Earn money at home {number}", "Last warning {number}")
REPLIES = ("Thank you, that works for me.", "I agree with this version.", "Friday at ten suits me well.",
           "Please go ahead without me.", "I will bring the papers.", "Count me in.")
SUBJECTS = ("Keys for the office", "Dinner on Saturday", "Change of room", "Books to return", "Car for the weekend",
            "Missing signature")
BODIES = ("Can you bring them tomorrow?", "Let me know if that suits you.", "Please answer by Thursday.",
          "I will call you tonight.", "All details are on the noticeboard.")
SIGNATURES = ("Kind regards from the coast", "Best wishes, sent from my desk", "See you soon", "With thanks, room 214",
              "Yours, back on Monday")
# fmt: on


@dataclass(frozen=True, slots=True)
class Organisation:
    name: str
    address: str

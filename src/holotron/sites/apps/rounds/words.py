"""The texts of a round, in the order of `LANGUAGES`."""

from holotron.sites.words import Table

# fmt: off
WORDS: Table = {
    "round": ("Round", "Rundgang", "Ronde", "Ronda"),
    "help": ("Help", "Hilfe", "Aide", "Ayuda"),
    "help_more": ("Follow the stops one by one. There is no way back.",
                  "Folgen Sie den Stationen. Es gibt kein Zurück.",
                  "Suivez les étapes une à une. On ne revient pas en arrière.",
                  "Siga las paradas una a una. No se puede volver atrás."),
    "pass_word": ("The pass word of this round is", "Das Kennwort dieses Rundgangs ist",
                  "Le mot de passe de cette ronde est", "La palabra clave de esta ronda es"),
    "shown_once": ("It is shown only now, and asked for at the end.", "Es wird nur jetzt gezeigt und am Ende verlangt.",
                   "Il n'est montré que maintenant et demandé à la fin.",
                   "Solo se muestra ahora y se pide al final."),
    "start": ("Start the round", "Rundgang beginnen", "Commencer la ronde", "Empezar la ronda"),
    "stop": ("Stop {number}: {place}", "Station {number}: {place}", "Étape {number} : {place}",
             "Parada {number}: {place}"),
    "stop_word": ("Word of this stop", "Wort dieser Station", "Mot de cette étape", "Palabra de esta parada"),
    "next_stop": ("Go on to {place}.", "Weiter zu: {place}.", "Continuez vers : {place}.", "Siga hacia: {place}."),
    "wrong_way": ("That is not the next stop.", "Das ist nicht die nächste Station.",
                  "Ce n'est pas la prochaine étape.", "Esa no es la siguiente parada."),
    "end": ("End of the round", "Ende des Rundgangs", "Fin de la ronde", "Fin de la ronda"),
    "enter": ("Pass word of the round", "Kennwort des Rundgangs", "Mot de passe de la ronde",
              "Palabra clave de la ronda"),
    "one_of": ("It is one of: {words}.", "Es ist eines von: {words}.", "C'est l'un de : {words}.",
               "Es una de: {words}."),
    "no_such_word": ("This is none of the words.", "Das ist keines der Wörter.", "Ce n'est aucun des mots.",
                     "No es ninguna de las palabras."),
    "send": ("Finish", "Abschließen", "Terminer", "Terminar"),
    "finished": ("The round is finished.", "Der Rundgang ist abgeschlossen.", "La ronde est terminée.",
                 "La ronda ha terminado."),
}

package aprun

import (
	"slices"
	"strings"
)

// Complete says what may stand in the place of the last of some words, those of a line up to the cursor: options of aprun and what they
// mean; or a value of an option, files where it is a FILE; or the program; or what the program at from takes (package option).
func Complete(words []string) (kind string, from int, offers [][2]string) {
	last := len(words) - 1
	for i := 0; i < last; i++ {
		switch r, known := rowOf(words[i]); {
		case words[i] == ":":
		case known && r.arg != "":
			if i++; i == last && strings.HasPrefix(r.arg, "FILE") {
				return "files", 0, nil
			} else if i == last {
				return "words", 0, nil
			}
		case !strings.HasPrefix(words[i], "-"):
			end := slices.Index(words[i:], ":")
			if end < 0 {
				return "arguments", i, nil
			}
			i += end
		}
	}
	if !strings.HasPrefix(words[last], "-") {
		return "program", 0, nil
	}
	for _, r := range letterRows {
		if strings.HasPrefix("-"+r.letters, words[last]) {
			offers = append(offers, [2]string{"-" + r.letters, r.help})
		}
	}
	return "words", 0, offers
}

// rowOf finds the letter of a word such as -n. In -n4 the value stands in the same word.
func rowOf(word string) (letterRow, bool) {
	for _, r := range letterRows {
		if word == "-"+r.letters {
			return r, true
		}
	}
	return letterRow{}, false
}

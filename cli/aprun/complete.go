package aprun

import (
	"slices"
	"strings"
)

// Complete completes the last word of an aprun command line. words is the command line up to the cursor. kind, an
// option.CompletionKind, says what the last word can be. For "words", candidates contains options with their help.
// For "files" and "program", the shell completes names of files and programs. For "arguments", the program is at
// index argsIndex, and the shell completes an argument of the program.
func Complete(words []string) (kind string, argsIndex int, candidates [][2]string) {
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
			candidates = append(candidates, [2]string{"-" + r.letters, r.help})
		}
	}
	return "words", 0, candidates
}

// rowOf returns the table row of an option such as -n. It does not recognize a word such as -n4, which
// contains a value.
func rowOf(word string) (letterRow, bool) {
	for _, r := range letterRows {
		if word == "-"+r.letters {
			return r, true
		}
	}
	return letterRow{}, false
}

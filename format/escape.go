package format

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What is printed of a text of somebody else, in bytes (TRUST-28).
const (
	maxField    = 256
	maxSentence = 4 << 10
	cutMark     = "..."
)

// EscapeSentence is a sentence in which somebody else has put in a word, as it may be printed
// (TRUST-28): on one line, with nothing in it that a terminal would obey or that hides
// what it says, 4 KiB at most. All text for people passes it where it leaves the program;
// JSON carries the text itself, and what ranks write is theirs. Cleaning twice is cleaning
// once.
func EscapeSentence(sentence string) string { return escape(sentence, maxSentence) }

// EscapeField is Clean for a name or another field, of which 256 bytes are enough.
func EscapeField(field string) string { return escape(field, maxField) }

// EscapeUncut is Clean for a transcript, which is of use only if nothing is cut.
func EscapeUncut(line string) string { return escape(line, math.MaxInt) }

// EscapeLines is Clean for each line of a text whose lines are ours.
func EscapeLines(text string) string {
	if isPrintable(text, len(text)) {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = EscapeSentence(strings.TrimSuffix(line, "\r"))
	}
	return strings.Join(lines, "\n")
}

// EscapeJSON is a text in JSON as it may be printed: what JSON lets stand as it is and a
// terminal would obey is written as an escape of JSON. It means the same.
func EscapeJSON(text []byte) []byte {
	if !slices.ContainsFunc(text, func(b byte) bool { return !breaksJSON(rune(b)) && (b < ' ' || b > '~') }) {
		return text // as mostly; the plan of a million ranks has 100 MB
	}
	var out []byte
	for _, r := range string(text) {
		if breaksJSON(r) || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// breaksJSON reports whether a character separates elements of JSON and is no blank.
func breaksJSON(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }

func escape(text string, most int) string {
	if isPrintable(text, most) {
		return text
	}
	var b strings.Builder
	whole := 0 // how much of it fits before a mark
	for len(text) > 0 && b.Len() <= most {
		r, size := utf8.DecodeRuneInString(text)
		if text[0] == '\r' && size < len(text) && text[1] == '\n' {
			size = 2 // as servers end lines
			r = '\n'
		}
		b.WriteString(escapeRune(r, text[:size]))
		text = text[size:]
		if b.Len() <= most-len(cutMark) {
			whole = b.Len()
		}
	}
	if b.Len() > most {
		return b.String()[:whole] + cutMark
	}
	return b.String()
}

// isPrintable reports whether a text is short and all of ASCII that prints: most are.
func isPrintable(text string, most int) bool {
	if len(text) > most {
		return false
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// escapeRune is how a character is printed, which stands so in the text.
func escapeRune(r rune, as string) string {
	switch {
	case r == utf8.RuneError && len(as) == 1: // no UTF-8
		return fmt.Sprintf(`\x%02x`, as[0])
	case r == '\n', r == '\t':
		return " "
	case unicode.IsPrint(r), unicode.Is(unicode.Zs, r):
		return as
	case unicode.IsControl(r):
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

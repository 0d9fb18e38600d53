package format

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"remshell/text"
)

// These constants limit the printed length of text from other hosts or users, in bytes (rule TRUST-28).
const (
	maxField    = 256
	maxSentence = 4 << 10
	cutMark     = "..."
)

// EscapeSentence makes a sentence that may contain text from other hosts or users safe to print (rule TRUST-28).
// The result is one line of at most 4 KiB, without terminal control characters or invisible characters. All text
// for the user passes through EscapeSentence before it is printed. JSON output is not escaped in this way, and
// output of ranks is not changed. Escaping a result again does not change it.
func EscapeSentence(sentence string) string { return escape(sentence, maxSentence) }

// EscapeField is like EscapeSentence, for a name or another short value. The result is at most 256 bytes long.
func EscapeField(field string) string { return escape(field, maxField) }

// EscapeUncut is like EscapeSentence, but the result may have any length. It is for text that must stay complete.
func EscapeUncut(line string) string { return escape(line, math.MaxInt) }

// EscapeLines applies EscapeSentence to each line of text. The line breaks of the text must come from mpiexec itself.
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

// EscapeJSON makes JSON text safe to print. Characters that could control a terminal become JSON escapes, so the
// values do not change.
func EscapeJSON(text []byte) []byte {
	if !slices.ContainsFunc(text, func(b byte) bool { return !isLineBreakOrTab(rune(b)) && (b < ' ' || b > '~') }) {
		return text // the usual case; the plan of a million ranks has 100 MB
	}
	var out []byte
	for _, r := range string(text) {
		if isLineBreakOrTab(r) || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// isLineBreakOrTab reports whether a character is one of the control characters that JSON allows between values.
func isLineBreakOrTab(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }

func escape(text string, limit int) string {
	if isPrintable(text, limit) {
		return text
	}
	var b strings.Builder
	whole := 0 // length of the text that fits before cutMark
	for len(text) > 0 && b.Len() <= limit {
		r, size := utf8.DecodeRuneInString(text)
		if text[0] == '\r' && size < len(text) && text[1] == '\n' {
			size = 2 // the line end of network protocols
			r = '\n'
		}
		b.WriteString(escapeRune(r, text[:size]))
		text = text[size:]
		if b.Len() <= limit-len(cutMark) {
			whole = b.Len()
		}
	}
	if b.Len() > limit {
		return b.String()[:whole] + cutMark
	}
	return b.String()
}

// isPrintable reports whether text contains only printable ASCII characters, and is at most limit bytes long.
func isPrintable(text string, limit int) bool {
	if len(text) > limit {
		return false
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// escapeRune returns the printed form of a character. encoded is the character as it is encoded in the text.
func escapeRune(r rune, encoded string) string {
	switch {
	case r == utf8.RuneError && len(encoded) == 1: // no UTF-8
		return fmt.Sprintf(`\x%02x`, encoded[0])
	case r == '\n', r == '\t':
		return " "
	case unicode.IsPrint(r), unicode.Is(unicode.Zs, r):
		return encoded
	case unicode.IsControl(r):
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Columns aligns the cells of rows in columns. It escapes the cells, since nodes may have sent them.
func Columns(rows [][]string) string {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = EscapeField(cell)
		}
	}
	return text.Columns("  ", rows)
}

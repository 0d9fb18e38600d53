package hostlist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fold formats a set of hosts for people, as in "login,node[03-17,20]". It sorts names naturally (node2 before node10),
// drops duplicates, and folds consecutive numbers into ranges. The results for equal sets are equal. Expand converts
// the result back to the set.
func Fold(names []string) string {
	sorted := slices.SortedFunc(slices.Values(names), compareNatural)
	return FoldList(slices.Compact(sorted))
}

// FoldList is like Fold, but it keeps the order of names and duplicates. Expand returns the same list again.
func FoldList(names []string) string {
	items := make([][]string, len(names))
	for i, name := range names {
		items[i] = splitDigits(name)
	}
	// The first pass folds the number in which adjacent names differ. The next pass treats the folded
	// groups as plain text, and may fold another number:
	//	r1n1,r1n2,r2n1,r2n2 -> r1n[1-2],r2n[1-2] -> r[1-2]n[1-2]
	for {
		folded := foldOnce(items)
		if len(folded) == len(items) {
			break
		}
		items = folded
	}
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = strings.Join(item, "")
	}
	return strings.Join(words, ",")
}

// MaxListed is the maximum number of entries of a folded host list in a message (which-hosts.md 12).
const MaxListed = 12

// FoldBrief is like Fold, for messages. If the folded list has more than MaxListed entries, it returns the first
// MaxListed entries and the number of hosts that are not shown.
func FoldBrief(names []string) string {
	all := Fold(names)
	if countEntries(all) <= MaxListed {
		return all
	}
	sorted := slices.Compact(slices.SortedFunc(slices.Values(names), compareNatural))
	shown, most := 0, len(sorted)
	for shown < most {
		if middle := (shown + most + 1) / 2; countEntries(FoldList(sorted[:middle])) <= MaxListed {
			shown = middle
		} else {
			most = middle - 1
		}
	}
	return fmt.Sprintf("%s and %d more", FoldList(sorted[:shown]), len(sorted)-shown)
}

// countEntries returns the number of names and ranges in a folded list.
func countEntries(folded string) int { return 1 + strings.Count(folded, ",") }

// splitDigits splits a name into runs of digits and the text between these runs. It does not split a name that
// cannot be written with brackets, such as an IPv6 address.
func splitDigits(name string) []string {
	if _, bad := badName(name); bad != "" {
		return []string{name}
	}
	var all []string
	for from := 0; from < len(name); {
		to := from + 1
		for to < len(name) && isDigit(name[to]) == isDigit(name[from]) {
			to++
		}
		all = append(all, name[from:to])
		from = to
	}
	return all
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isNumber(piece string) bool { return allDigits(piece) && len(piece) <= 18 }

// Compare compares two host names in natural order, in which node2 comes before node10. It returns a negative
// number, 0 or a positive number, like strings.Compare.
func Compare(a, b string) int { return compareNatural(a, b) }

// compareNatural compares two names in natural order, in which node2 comes before node10. Numbers of equal value
// are ordered by their number of digits, so that only equal names compare as equal.
func compareNatural(a, b string) int {
	as, bs := splitDigits(a), splitDigits(b)
	for i := range min(len(as), len(bs)) {
		order := strings.Compare(as[i], bs[i])
		if isNumber(as[i]) && isNumber(bs[i]) {
			order = cmp.Or(cmp.Compare(numberValue(as[i]), numberValue(bs[i])), cmp.Compare(len(as[i]), len(bs[i])))
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Or(cmp.Compare(len(as), len(bs)), strings.Compare(a, b))
}

// numberValue returns the value of a decimal number with at most 18 digits.
func numberValue(number string) int64 {
	n := int64(0)
	for i := range len(number) {
		n = n*10 + int64(number[i]-'0')
	}
	return n
}

// A nameRun is a sequence of names that differ only in one number.
type nameRun struct {
	pieces       []string
	varyingPiece int // index of the piece that varies; -1 if there is only one name so far
	ranges       []numberRange
}

type numberRange struct{ low, high string }

// foldOnce replaces each run of adjacent names that differ only in one number with a single name with brackets.
func foldOnce(items [][]string) [][]string {
	var all [][]string
	var r nameRun
	for i, item := range items {
		if i > 0 && r.extend(item) {
			continue
		}
		if i > 0 {
			all = append(all, r.folded())
		}
		r = nameRun{pieces: item, varyingPiece: -1}
	}
	if len(items) > 0 {
		all = append(all, r.folded())
	}
	return all
}

// extend adds a name to the run. It returns false, and adds nothing, if the name does not continue the run.
func (r *nameRun) extend(item []string) bool {
	if len(item) != len(r.pieces) {
		return false
	}
	at := r.varyingPiece
	for i := range item {
		switch {
		case item[i] == r.pieces[i] || i == r.varyingPiece:
		case at < 0:
			at = i
		default:
			return false
		}
	}
	if at < 0 || !isNumber(item[at]) || !isNumber(r.pieces[at]) {
		return false
	}
	if r.varyingPiece < 0 {
		r.varyingPiece = at
		r.ranges = []numberRange{{r.pieces[at], r.pieces[at]}}
	}
	last := &r.ranges[len(r.ranges)-1]
	if padNumber(numberValue(last.high)+1, len(last.low)) == item[at] {
		last.high = item[at]
	} else {
		r.ranges = append(r.ranges, numberRange{item[at], item[at]})
	}
	return true
}

// folded returns the run as one item with brackets.
func (r nameRun) folded() []string {
	if r.varyingPiece < 0 {
		return r.pieces
	}
	words := make([]string, len(r.ranges))
	for i, s := range r.ranges {
		words[i] = s.low
		if s.high != s.low {
			words[i] += "-" + s.high
		}
	}
	folded := slices.Clone(r.pieces)
	folded[r.varyingPiece] = "[" + strings.Join(words, ",") + "]"
	return folded
}

package nodeset

import (
	"fmt"
	"slices"
	"strings"
)

// A Policy says how many sets a job may use.
type Policy string

// The policies. The empty one: no sets.
const (
	OneOf   Policy = "ONEOF"   // one, the best by a priority
	AnyOf   Policy = "ANYOF"   // all of them, mixed
	FirstOf Policy = "FIRSTOF" // one, the first that fits
)

var policies = []string{string(OneOf), string(AnyOf), string(FirstOf)}

// A Request is a policy, an attribute, and perhaps the values that count:
//
//	request   = policy ":" attribute [ ":" list ] / "none"
//	policy    = "ONEOF" / "ANYOF" / "FIRSTOF"                  ; any case
//	list      = value *( 1*( "," / ":" / blank ) value )       ; empty ones are skipped
//	value     = label / number / number "-" number
//	label     = 1*64( letter / digit / "_" / "." / "+" / "-" / "*" / "?" )
//	number    = digits [ "." 1*16digits ] [ unit ]            ; exact as a Number
type Request struct {
	Policy    Policy // empty: none
	Attribute string // in upper case
	Kind      Kind
	List      []Item // nil: all values that nodes have
}

// An Item is one value of a list: a label, or numbers from First to Last.
type Item struct {
	Label       string
	First, Last Number
}

// isPattern reports whether labels are to match it.
func (i Item) isPattern() bool { return strings.ContainsAny(i.Label, "*?") }

// canonicalText is the item as the canonical request has it.
func (i Item) canonicalText() string {
	switch {
	case i.Label != "":
		return i.Label
	case i.First != i.Last:
		return i.First.String() + "-" + i.Last.String()
	}
	return i.First.String()
}

// String is the request with its words in upper case, and numbers without units.
func (r Request) String() string {
	if r.Policy == "" {
		return "none"
	}
	text := string(r.Policy) + ":" + r.Attribute
	for i, item := range r.List {
		text += []string{":", ","}[min(i, 1)] + item.canonicalText()
	}
	return text
}

// A WordError is a word of a request, or of what modifies it, that cannot be.
type WordError struct {
	Token   string
	Allowed []string
	Reason  string // empty: it is unknown
}

func (e *WordError) Error() string {
	text := fmt.Sprintf("%q", e.Token)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text + "; allowed: " + strings.Join(e.Allowed, ", ")
}

// maxLabel is the longest label, in bytes.
const maxLabel = 64

// maxItems bounds the values of one list.
const maxItems = 10_000

// blanks are what may stand between and around words.
const blanks = " \t\n\r\f\v"

// Parse reads a request in one text. The error is a *WordError.
func Parse(text string, kinds Kinds) (Request, error) {
	text = trim(text)
	if strings.EqualFold(text, "none") {
		return Request{}, nil
	}
	policy, rest, _ := strings.Cut(text, ":")
	attribute, list, _ := strings.Cut(rest, ":")
	return ParseParts(trim(policy), trim(attribute), strings.FieldsFunc(list, isSeparator), kinds)
}

func trim(text string) string { return strings.Trim(text, blanks) }

// isSeparator reports whether a character stands between the values of a list.
func isSeparator(c rune) bool { return c == ',' || c == ':' || strings.ContainsRune(blanks, c) }

// SplitList are the values of a list in one text.
func SplitList(list string) []string { return strings.FieldsFunc(list, isSeparator) }

// ParseParts reads a request in pieces. The error is a *WordError.
func ParseParts(policy, attribute string, list []string, kinds Kinds) (Request, error) {
	if !slices.Contains(policies, strings.ToUpper(policy)) {
		return Request{}, &WordError{Token: policy, Allowed: policies, Reason: "unknown policy"}
	}
	r := Request{Policy: Policy(strings.ToUpper(policy)), Attribute: CanonicalName(attribute)}
	kind, known := kinds[r.Attribute]
	if !known {
		return Request{}, &WordError{Token: attribute, Allowed: kinds.Names(), Reason: "unknown attribute"}
	}
	if r.Kind = kind; len(list) > maxItems {
		return Request{}, &WordError{Token: list[maxItems], Allowed: []string{fmt.Sprintf("at most %d values", maxItems)}}
	}
	for _, word := range list {
		item, err := parseItem(word, kind)
		if err != nil {
			return Request{}, err
		}
		r.List = append(r.List, item)
	}
	return r, nil
}

// parseItem reads one value of a list.
func parseItem(word string, kind Kind) (Item, error) {
	if !kind.Numeric {
		if word == "" || len(word) > maxLabel || strings.ContainsFunc(word, func(c rune) bool { return !isLabelRune(c) }) {
			return Item{}, &WordError{Token: word, Allowed: []string{"letters, digits, _ . + -, * and ?"}, Reason: "no label"}
		}
		return Item{Label: word}, nil
	}
	first, last, between := strings.Cut(word, "-")
	if !between {
		last = first
	}
	from, ok := kind.parseNumber(first)
	to, also := kind.parseNumber(last)
	if !ok || !also || from > to {
		return Item{}, &WordError{Token: word, Allowed: []string{"N", "FIRST-LAST with FIRST <= LAST"}, Reason: "no number"}
	}
	return Item{First: from, Last: to}, nil
}

// isLabelRune reports whether a character may be in a label or pattern.
func isLabelRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_.+-*?", c)
}

// IsLabel reports whether a text may be a label of a node.
func IsLabel(text string) bool {
	return text != "" && len(text) <= maxLabel && !strings.ContainsFunc(text, func(c rune) bool { return !isLabelRune(c) || c == '*' || c == '?' })
}

// parseNumber reads a number with a unit of the kind.
func (k Kind) parseNumber(text string) (Number, bool) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	each, known := k.Units[strings.ToUpper(text[len(digits):])]
	if !known {
		return 0, false
	}
	return parseScaled(digits, each)
}

// ParseQuantity reads a number with a unit of an attribute that every cluster has; false: it is none.
func ParseQuantity(name, text string) (Number, bool) {
	kind := builtIn[name]
	if n, ok := kind.parseNumber(text); ok && kind.Numeric {
		return n, true
	}
	return 0, false
}

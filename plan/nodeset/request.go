package nodeset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Policy says whether a job may use one node set or several.
type Policy string

// These are the policies. A policy says how many node sets a job may use. An empty policy means that node sets do
// not matter.
const (
	OneOf   Policy = "ONEOF"   // one set, the best by a priority
	AnyOf   Policy = "ANYOF"   // all sets together
	FirstOf Policy = "FIRSTOF" // one set, the first that fits
)

var policies = []string{string(OneOf), string(AnyOf), string(FirstOf)}

// A Request is a parsed node-set request. It is "none", or consists of a policy, an attribute and, optionally, a
// list of values:
//
//	request   = policy ":" attribute [ ":" list ] / "none"
//	policy    = "ONEOF" / "ANYOF" / "FIRSTOF"                  ; any case
//	list      = value *( 1*( "," / ":" / blank ) value )       ; empty values are skipped
//	value     = label / number / number "-" number
//	label     = 1*64( letter / digit / "_" / "." / "+" / "-" / "*" / "?" )
//	number    = digits [ "." 1*16digits ] [ unit ]            ; a Number must represent it exactly
type Request struct {
	Policy    Policy // empty if there is no request
	Attribute string // in upper case
	Kind      Kind
	List      []Item // nil means all values that nodes have
}

// An Item is one value of the list in a request. It is a label, or the numbers from First to Last.
type Item struct {
	Label       string
	First, Last Number
}

// isPattern reports whether the item is a pattern that may match several labels.
func (i Item) isPattern() bool { return strings.ContainsAny(i.Label, "*?") }

// canonicalText returns the item as it appears in the canonical form of a request.
func (i Item) canonicalText() string {
	switch {
	case i.Label != "":
		return i.Label
	case i.First != i.Last:
		return i.First.String() + "-" + i.Last.String()
	}
	return i.First.String()
}

// String returns the canonical form of the request: keywords in upper case, and numbers without units.
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

// A WordError is the error for an invalid word in a node-set request or a modifier.
type WordError struct {
	Token   string
	Allowed []string
	Reason  string // a predicate of the token; empty: the token is not one of the allowed words
}

// These are values of WordError.Reason, for an unknown policy and an unknown attribute.
const (
	NoPolicy    = "is not a policy"
	NoAttribute = "is not an attribute"
)

func (e *WordError) Error() string {
	text := fmt.Sprintf("%q %s", e.Token, cmp.Or(e.Reason, "is not valid"))
	if len(e.Allowed) > 0 {
		text += "; allowed: " + strings.Join(e.Allowed, ", ")
	}
	return text
}

// maxLabel is the maximum length of a label in bytes.
const maxLabel = 64

// maxItems is the maximum number of values in the list of a request.
const maxItems = 10_000

// blanks are the characters that may surround words.
const blanks = " \t\n\r\f\v"

// Parse parses a node-set request that is written as one string. The error is a *WordError.
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

// isSeparator reports whether a character separates the values of a list.
func isSeparator(c rune) bool { return c == ',' || c == ':' || strings.ContainsRune(blanks, c) }

// SplitList splits the list of a request into its values.
func SplitList(list string) []string { return strings.FieldsFunc(list, isSeparator) }

// ParseParts parses a node-set request whose policy, attribute and list are given separately. The error is a
// *WordError.
func ParseParts(policy, attribute string, list []string, kinds Kinds) (Request, error) {
	if !slices.Contains(policies, strings.ToUpper(policy)) {
		return Request{}, &WordError{Token: policy, Allowed: policies, Reason: NoPolicy}
	}
	r := Request{Policy: Policy(strings.ToUpper(policy)), Attribute: CanonicalName(attribute)}
	kind, known := kinds[r.Attribute]
	if !known {
		return Request{}, &WordError{Token: attribute, Allowed: kinds.Names(), Reason: NoAttribute}
	}
	if r.Kind = kind; len(list) > maxItems {
		return Request{}, &WordError{Token: list[maxItems], Allowed: []string{fmt.Sprintf("lists of at most %d values", maxItems)}}
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

// parseItem parses one value of the list in a request.
func parseItem(word string, kind Kind) (Item, error) {
	if !kind.Numeric {
		if word == "" || len(word) > maxLabel || strings.ContainsFunc(word, func(c rune) bool { return !isLabelRune(c) }) {
			return Item{}, &WordError{Token: word, Allowed: []string{"labels of letters, digits and the characters _ . + - * ?"}, Reason: "is not a label"}
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
		return Item{}, &WordError{Token: word, Allowed: []string{"N", "FIRST-LAST with FIRST <= LAST"}, Reason: "is not a number or a range of numbers"}
	}
	return Item{First: from, Last: to}, nil
}

// isLabelRune reports whether a character is allowed in a label or pattern.
func isLabelRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_.+-*?", c)
}

// IsLabel reports whether a text is a valid label of a node.
func IsLabel(text string) bool {
	return text != "" && len(text) <= maxLabel && !strings.ContainsFunc(text, func(c rune) bool { return !isLabelRune(c) || c == '*' || c == '?' })
}

// parseNumber parses a number, which may have one of the units of this kind of attribute.
func (k Kind) parseNumber(text string) (Number, bool) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	each, known := k.Units[strings.ToUpper(text[len(digits):])]
	if !known {
		return 0, false
	}
	return parseScaled(digits, each)
}

// ParseQuantity parses a number that may have a unit. name is the built-in attribute that determines the units.
// ParseQuantity returns false if the text is invalid.
func ParseQuantity(name, text string) (Number, bool) {
	kind := builtIn[name]
	if n, ok := kind.parseNumber(text); ok && kind.Numeric {
		return n, true
	}
	return 0, false
}

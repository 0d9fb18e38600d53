package nodeset

import (
	"math/bits"
	"strconv"
	"strings"
)

// A Number is the numeric value of an attribute, in units of 1/(1024*10^6). In this unit, numbers with six decimals
// are exact, and so are memory sizes in K that are converted to M. Values that would not be exact are errors. The
// range is 0 to MaxNumber.
type Number int64

// oneUnit is the Number that represents 1.
const oneUnit Number = 1024 * 1_000_000

// MaxNumber is the maximum value of a numeric attribute.
const MaxNumber = 8_000_000_000 * oneUnit

// FromInt converts an integer to a Number. It returns MaxNumber for an integer that is too large, and 0 for a
// negative one.
func FromInt(n int64) Number { return Number(min(max(n, 0), int64(MaxNumber/oneUnit))) * oneUnit }

// ParseNumber parses a decimal number with up to six decimals, or a text that Number.String has returned, which may
// have more decimals.
func ParseNumber(text string) (Number, bool) { return parseScaled(text, oneUnit) }

// NumberFault returns a phrase that says why a decimal number cannot be converted to a Number.
func NumberFault(text string) string {
	whole, decimals, _ := strings.Cut(text, ".")
	if n, ok := ParseNumber(whole); ok && n < MaxNumber && len(decimals) > 6 {
		return "has more than six decimals"
	}
	return "is not between 0 and " + MaxNumber.String()
}

// maxDecimals is the maximum number of decimals of a Number in decimal notation. The smallest Number, 10^-6/1024,
// has 16 decimals.
const maxDecimals = 16

// parseScaled parses a decimal number and multiplies it by unit. It returns false if the product is not an exact
// Number.
func parseScaled(text string, unit Number) (Number, bool) {
	whole, decimals, point := strings.Cut(text, ".")
	if whole == "" || point && decimals == "" || len(decimals) > maxDecimals || strings.Trim(whole+decimals, "0123456789") != "" {
		return 0, false
	}
	count, err := strconv.ParseUint(whole, 10, 64)
	high, value := bits.Mul64(count, uint64(unit))
	if err != nil || high > 0 || value > uint64(MaxNumber) {
		return 0, false
	}
	parts, _ := strconv.ParseUint(decimals+strings.Repeat("0", maxDecimals-len(decimals)), 10, 64) // digits only, below 10^16
	high, low := bits.Mul64(parts, uint64(unit))
	fraction, rest := bits.Div64(high, low, 10_000_000_000_000_000)
	if value += fraction; rest != 0 || value > uint64(MaxNumber) {
		return 0, false
	}
	return Number(value), true
}

// String returns the number in decimal without an exponent, such as "2400" or "2.5".
func (n Number) String() string {
	text := strconv.FormatInt(int64(n/oneUnit), 10)
	rest := n % oneUnit
	if rest == 0 {
		return text
	}
	// A unit has 1024*10^6 parts, and each part is 9765625/10^16.
	decimals := strconv.FormatInt(int64(rest)*9_765_625, 10)
	decimals = strings.Repeat("0", 16-len(decimals)) + decimals
	return text + "." + strings.TrimRight(decimals, "0")
}

// A Tolerance says by how much the numbers in a node set may exceed the smallest number of the set. It is expressed in
// millionths of the smallest number, and at most MaxTolerance.
type Tolerance int64

// MaxTolerance is the maximum tolerance. With this tolerance, numbers may be up to eleven times the smallest
// number.
const MaxTolerance Tolerance = 10_000_000

// ParseTolerance parses a tolerance. It is a number from 0 to 10 with up to six decimals, or a percentage from 0%
// to 1000% with up to four decimals.
func ParseTolerance(text string) (Tolerance, bool) {
	each, digits := oneUnit, text
	if before, percent := strings.CutSuffix(text, "%"); percent {
		digits, each = before, oneUnit/100
	}
	n, ok := parseScaled(digits, each)
	return Tolerance(n / (oneUnit / 1_000_000)), ok && n%(oneUnit/1_000_000) == 0 && n <= 10*oneUnit
}

// String returns the tolerance as a decimal number.
func (t Tolerance) String() string { return (Number(t) * (oneUnit / 1_000_000)).String() }

// withinTolerance reports whether x <= v * (1 + t). It does not round.
func withinTolerance(x, v Number, t Tolerance) bool {
	if t == 0 {
		return x <= v
	}
	xh, xl := bits.Mul64(uint64(x), 1_000_000)
	vh, vl := bits.Mul64(uint64(v), uint64(1_000_000+t))
	return xh < vh || xh == vh && xl <= vl
}

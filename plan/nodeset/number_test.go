package nodeset

import "testing"

// A number is invalid because it is too large or has too many decimals.
func TestNumberFault(t *testing.T) {
	for text, want := range map[string]string{
		"0.0000001": "has more than six decimals", "7999999999.1234567": "has more than six decimals",
		"8000000001": "is not between 0 and 8000000000", "8000000000.5": "is not between 0 and 8000000000", "-1": "is not between 0 and 8000000000", "1e10": "is not between 0 and 8000000000",
	} {
		if _, ok := ParseNumber(text); ok || NumberFault(text) != want {
			t.Errorf("%s %s, want %s", text, NumberFault(text), want)
		}
	}
}

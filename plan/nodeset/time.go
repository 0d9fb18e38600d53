package nodeset

import (
	"strconv"
	"strings"
	"time"
)

// MaxTime is the maximum time that ParseTime accepts, which is 10,000 days.
const MaxTime = 10_000 * day

const day = 24 * time.Hour

// ParseTime parses a time of at most MaxTime. The text is a number of seconds, a time with units such as 90s, 5m or
// 1h30m, or [[DD:]HH:]MM:SS.
func ParseTime(text string) (time.Duration, bool) {
	switch {
	case strings.Contains(text, ":"):
		return parseClock(text)
	case strings.Trim(text, "0123456789") == "":
		return multiplyTime(text, time.Second)
	}
	return parseUnits(text)
}

// multiplyTime parses an integer and multiplies it by unit. It returns false if the text is not an integer or the
// product is too large.
func multiplyTime(digits string, unit time.Duration) (time.Duration, bool) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(MaxTime/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// parseClock parses [[DD:]HH:]MM:SS.
func parseClock(text string) (sum time.Duration, ok bool) {
	pieces := strings.Split(text, ":")
	if len(pieces) > 4 {
		return 0, false
	}
	each := []time.Duration{day, time.Hour, time.Minute, time.Second}[4-len(pieces):]
	for i, piece := range pieces {
		d, ok := multiplyTime(piece, each[i])
		if sum += d; !ok {
			return 0, false
		}
	}
	return sum, sum <= MaxTime
}

// parseUnits parses a time such as 1h30m, which consists of hours, minutes and seconds in this order, each followed by
// its letter.
func parseUnits(text string) (sum time.Duration, ok bool) {
	rest := text
	for _, u := range []struct {
		letter string
		each   time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		digits, after, found := strings.Cut(rest, u.letter)
		if !found {
			continue
		}
		d, ok := multiplyTime(digits, u.each)
		if sum += d; !ok {
			return 0, false
		}
		rest = after
	}
	return sum, rest == "" && text != "" && sum <= MaxTime
}

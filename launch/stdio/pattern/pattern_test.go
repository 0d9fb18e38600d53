package pattern

import (
	"testing"
	"time"
)

func TestPattern(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	who := RankInfo{Rank: 7, Local: 1, Node: 3, PID: 4711, Size: 128, Host: "n3", Job: "j-1", Stream: "stderr", Began: began}
	for pattern, want := range map[string]string{
		"[%r] ":        "[7] ",
		"%R":           "007",
		"%l %n %p %g":  "1 3 3 0",
		"%h:%P<%s>":    "n3:4711<stderr>",
		"%j-100%%":     "j-1-100%",
		"%t":           "61.250",
		"%T ":          "2026-11-20T12:01:01.250Z ",
		"no verb":      "no verb",
		"":             "",
		"%%r":          "%r",
		"\xff\x00%r\n": "\xff\x007\n",
	} {
		p, err := ParseLabel(pattern)
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
		if got := string(p.Append(nil, who, began.Add(61250*time.Millisecond))); got != want {
			t.Errorf("%q makes %q, want %q", pattern, got, want)
		}
	}
	for _, bad := range []string{"%", "%x", "a%", "%é"} {
		if _, err := ParseLabel(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	for _, bad := range []string{"%T", "%P"} {
		if _, err := ParseFile(bad); err == nil {
			t.Errorf("%q names a file", bad)
		}
	}
}

package nodeset

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func resolve(l Levels) (Setting, error) {
	kinds, _ := KindsOf(1, func(int) Attributes { return Attributes{"RACK": {Labels: []string{"r1"}}, "PRICE": {Number: oneUnit}} })
	if l.MaxDelay == 0 {
		l.MaxDelay = time.Hour
	}
	return l.Resolve(kinds)
}

func spec(text string) Level { return Level{Source: "--node-set", Spec: &text} }

// Requests as users may write them, and their canonical form.
func TestRequests(t *testing.T) {
	for text, want := range map[string]string{
		"oneof:feature:a,b":                "ONEOF:FEATURE:a,b",
		"ANYOF:PROCSPEED:450,500,650":      "ANYOF:PROCSPEED:450,500,650",
		"ONEOF:NETWORK:via,myrinet":        "ONEOF:NETWORK:via,myrinet",
		" FIRSTOF : FEATURE : a :: b ,, c": "FIRSTOF:FEATURE:a,b,c",
		"ONEOF:PROCSPEED:2.4GHz,3000mhz":   "ONEOF:PROCSPEED:2400,3000",
		"ANYOF:MEMORY:48G-1TB":             "ANYOF:MEMORY:49152-1048576",
		"ONEOF:MEMORY:1K":                  "ONEOF:MEMORY:0.0009765625",
		"ONEOF:NETSPEED:10G":               "ONEOF:NETSPEED:10000",
		"ONEOF:rack:r*":                    "ONEOF:RACK:r*",
		"ONEOF:price:2.50":                 "ONEOF:PRICE:2.5",
		"NONE":                             "none",
	} {
		s, err := resolve(Levels{Flags: spec(text)})
		if err != nil || s.Request.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, s.Request, err, want)
		}
	}
	for text, token := range map[string]string{
		"": "", "ONEOF": "", "SOMEOF:FEATURE": "SOMEOF", "ONEOF:COLOUR": "COLOUR", "ONEOF:PROCSPEED:4G": "4G", "ONEOF:PROCSPEED:-5": "-5",
		"ONEOF:PROCSPEED:3-2": "3-2", "ONEOF:FEATURE:a/b": "a/b", "ONEOF:PRICE:1.2345678": "1.2345678", "ONEOF:PRICE:9000000000": "9000000000",
		"ONEOF:FEATURE:" + strings.Repeat("x", 65): strings.Repeat("x", 65), "ONEOF:PRICE:1M": "1M",
	} {
		var refused *SourceError
		if _, err := resolve(Levels{Flags: spec(text)}); !errors.As(err, &refused) || refused.Token != token || len(refused.Allowed) == 0 {
			t.Errorf("%q: %v; want a refusal of %q", text, err, token)
		}
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90": 90 * time.Second, "90s": 90 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "1:00": time.Minute,
		"1:00:00": time.Hour, "2:01:00:00": 49 * time.Hour, "1h5s": time.Hour + 5*time.Second,
	} {
		if got, ok := ParseTime(text); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "1h 5", "5x", "m", "1:", ":1", "1:2:3:4:5", "-1", "+1:00", "1e3", "99999999999999999999", "9999999h", "10001:00:00:00", "5m1h", "1.5h"} {
		if got, ok := ParseTime(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// A tolerance is exact: at 0.5, 500 and 750 are in one set, and no larger number is.
func TestTolerance(t *testing.T) {
	for _, test := range []struct {
		x, v, tolerance string
		want            bool
	}{
		{"750", "500", "0.5", true}, {"750.000001", "500", "0.5", false}, {"900", "500", "50%", false}, {"500", "500", "0", true},
		{"0.3", "0.1", "2", true}, {"0.300001", "0.1", "2", false}, {"8000000000", "8000000000", "10", true}, {"110", "100", "0.1", true},
		{"33.333333", "11.111111", "200%", true}, {"1.000001", "1", "0.000001", true}, {"1.000002", "1", "0.000001", false},
	} {
		x, _ := ParseNumber(test.x)
		v, _ := ParseNumber(test.v)
		tolerance, ok := ParseTolerance(test.tolerance)
		if !ok || withinTolerance(x, v, tolerance) != test.want {
			t.Errorf("%+v: %v", test, ok)
		}
	}
	for _, text := range []string{"", "11", "1001%", "0.0000001", "1.5x", "%", "-1", "1e1"} {
		if got, ok := ParseTolerance(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// The merging of levels: the request as a whole, modifiers one by one.
func TestLevels(t *testing.T) {
	modified := func(l Level, pairs ...string) Level {
		l.Modifiers = make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			l.Modifiers[pairs[i]] = pairs[i+1]
		}
		return l
	}
	cluster := modified(spec("ONEOF:PROCSPEED"), KeyTolerance, "0.5", KeyPriority, "BESTRESOURCE", KeyOptional, "no", KeyDelay, "2h")
	cluster.Source = "nodeset"
	for name, test := range map[string]struct {
		levels Levels
		want   Setting
	}{
		"the cluster's":                 {Levels{Cluster: cluster}, Setting{Source: "nodeset", Tolerance: 500_000, Priority: BestResource, Delay: 2 * time.Hour}},
		"a user's, with what suits":     {Levels{Cluster: cluster, Flags: spec("ONEOF:FEATURE")}, Setting{Source: "--node-set", Priority: FirstFit, Delay: 2 * time.Hour}},
		"a user's delay is cut":         {Levels{Cluster: cluster, Flags: modified(Level{}, KeyDelay, "3h")}, Setting{Source: "nodeset", Tolerance: 500_000, Priority: BestResource, Delay: time.Hour, RequestedDelay: 3 * time.Hour}},
		"defaults may be left":          {Levels{Class: spec("ONEOF:FEATURE")}, Setting{Source: "--node-set", Priority: FirstFit, Optional: true}},
		"a user's may not":              {Levels{Flags: spec("ONEOF:FEATURE")}, Setting{Source: "--node-set", Priority: FirstFit}},
		"unless he says so":             {Levels{Flags: modified(spec("ONEOF:FEATURE"), KeyOptional, "TRUE")}, Setting{Source: "--node-set", Priority: FirstFit, Optional: true}},
		"none":                          {Levels{Cluster: cluster, Flags: spec("none")}, Setting{Tolerance: 500_000, Priority: BestResource, Delay: 2 * time.Hour}},
		"listed nodes":                  {Levels{Cluster: cluster, NodesListed: true}, Setting{Tolerance: 500_000, Priority: BestResource, Delay: 2 * time.Hour}},
		"what a flag hides is not read": {Levels{Variables: spec("junk"), Flags: spec("none")}, Setting{Priority: FirstFit}},
	} {
		s, err := resolve(test.levels)
		if err != nil || s.Source != test.want.Source || s.Tolerance != test.want.Tolerance || s.Priority != test.want.Priority || s.Delay != test.want.Delay ||
			s.RequestedDelay != test.want.RequestedDelay || s.Source != "" && s.Optional != test.want.Optional {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	for _, l := range []Levels{{UsersDenied: true, Flags: spec("none")}, {UsersDenied: true, Variables: modified(Level{}, KeyPlus, "DELAY")},
		{Flags: modified(spec("ONEOF:FEATURE"), KeyTolerance, "0.5")}, {Flags: modified(spec("ONEOF:PROCSPEED"), KeyPriority, "minloss")},
		{Cluster: modified(Level{}, KeyPriority, "QUICKEST"), Flags: spec("none")}} {
		if s, err := resolve(l); err == nil {
			t.Errorf("%+v: %+v", l, s)
		}
	}
}

// The ends of an ANYOF range are unused only if no node is in the range. Values between them, and those of
// other policies, are unused if no node has them.
func TestUnusedValues(t *testing.T) {
	for _, test := range []struct{ request, numbers, want string }{
		{"ANYOF:PROCSPEED:450,500,650", "400 500 600 700", ""},
		{"ANYOF:PROCSPEED:650,500,450", "400 600 700", "500"},
		{"ANYOF:PROCSPEED:450,650", "400 700", "450 650"},
		{"ANYOF:PROCSPEED:450", "400", "450"},
		{"ANYOF:PROCSPEED:450-500,650", "600", ""},
		{"ONEOF:PROCSPEED:450,500,650", "400 500 600", "450 650"},
	} {
		s, err := resolve(Levels{Flags: spec(test.request)})
		if err != nil {
			t.Fatal(err)
		}
		var nodes []Node
		for _, word := range strings.Fields(test.numbers) {
			number, _ := ParseNumber(word)
			nodes = append(nodes, Node{Value: Value{Number: number}})
		}
		if got := strings.Join(UnusedValues(s, nodes), " "); got != test.want {
			t.Errorf("%s of %s: %q; want %q", test.request, test.numbers, got, test.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, label string
		want           bool
	}{{"*", "", true}, {"a*", "abc", true}, {"*c", "abc", true}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"*b*d", "abcd", true}, {"*b*d", "abcde", false},
		{"a**b", "ab", true}, {"", "a", false}, {"*aab", "aaaaab", true}, {"b*", "ab", false}} {
		if got := matches(test.pattern, test.label); got != test.want {
			t.Errorf("%q of %q: %v", test.pattern, test.label, got)
		}
	}
}

// Each number is read again as String writes it, also one that only a unit can make, alone and in a
// request.
func TestNumbersAreReadAgain(t *testing.T) {
	kinds, _ := KindsOf(0, nil)
	random := rand.New(rand.NewPCG(15, 5))
	numbers := []Number{0, 1, 1023, 1024, oneUnit / 1024, oneUnit - 1, oneUnit, oneUnit + 1, MaxNumber - 1, MaxNumber}
	for range 20_000 {
		numbers = append(numbers, Number(random.Int64N(int64(MaxNumber)+1))>>random.IntN(63))
	}
	for i, n := range numbers {
		if again, ok := ParseNumber(n.String()); !ok || again != n {
			t.Fatalf("%d is %s, which is %d (%v)", n, n, again, ok)
		}
		r := Request{Policy: AnyOf, Attribute: Memory, Kind: kinds[Memory], List: []Item{{First: 0, Last: n}, {First: n, Last: n}}}
		if again, err := Parse(r.String(), kinds); err != nil || !slices.Equal(again.List, r.List) {
			t.Fatalf("number %d: %s is %v, %v", i, r, again, err)
		}
	}
	for text, want := range map[string]bool{
		"8000000000": true, "8000000000.0000000000000001": false, "8000000000.000000001": false, "99999999999999999999": false,
		"0.0009765625": true, "0.0009765624": false, "1.0": true, "1.": false, ".5": false, "1.00000000000000000": false,
	} {
		if n, ok := ParseNumber(text); ok != want {
			t.Errorf("%q: %s, %v", text, n, ok)
		}
	}
}

// For any input the parser does not panic, and a request that it accepts has the same meaning in its
// canonical form.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{"ONEOF:FEATURE:a,b*", "ANYOF:PROCSPEED:450-650,2.4GHz", "FIRSTOF:MEMORY:1K,32G", "none", "ONEOF:rack"} {
		f.Add(text, "50%", "1h30m", "SPANEVENLY DELAY")
	}
	kinds, _ := KindsOf(1, func(int) Attributes { return Attributes{"RACK": {Labels: []string{"r1"}}} })
	f.Fuzz(func(t *testing.T, text, tolerance, delay, plus string) {
		if r, err := Parse(text, kinds); err == nil {
			canonical := r.String()
			again, err := Parse(canonical, kinds)
			if err != nil || again.String() != canonical {
				t.Errorf("%q is %q, which is %v (%v)", text, canonical, again, err)
			}
		}
		if x, ok := ParseTolerance(tolerance); ok && (x < 0 || x > MaxTolerance) {
			t.Errorf("tolerance %q: %d", tolerance, x)
		}
		if d, ok := ParseTime(delay); ok && (d < 0 || d > MaxTime) {
			t.Errorf("time %q: %v", delay, d)
		}
		parsePlus(plus)
	})
}

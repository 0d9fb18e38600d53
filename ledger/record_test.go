package ledger

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"remshell/job"
)

var when = time.Date(2026, 11, 20, 12, 0, 0, 5, time.UTC)

func sample() Claim {
	return Claim{Job: "j-1.a_B", ParentJob: "outer", UID: 1000, User: "ann", LauncherHost: "front", Node: "n1", Nodes: 2, Size: 4,
		Ranks: []job.ClaimedRank{{Rank: 0, CPUs: []int{0, 4}}, {Rank: 2, CPUs: []int{1, 5}}}, Exclusive: true, Since: when, Command: "./a.out -x"}
}

func TestClaimText(t *testing.T) {
	want := sample()
	text, err := encode(claimText{"name", want})
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeClaim("name", 1000, text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// A claim of a release without GPU support has no GPUs, and a claim without GPUs is encoded as in that release.
func TestClaimsWithAndWithoutGPUs(t *testing.T) {
	want := sample()
	text, _ := encode(claimText{"name", want})
	if strings.Contains(string(text), "gpu") {
		t.Errorf("%s", text)
	}
	if got, err := decodeClaim("name", 1000, text); err != nil || OccupancyOf([]Claim{got}, nil).BusyGPUs != nil {
		t.Errorf("%+v, %v", got, err)
	}
	want.Ranks[1].GPUs = []string{"0000:c7:00.0", "10000:01:00.0"}
	text, _ = encode(claimText{"name", want})
	got, err := decodeClaim("name", 1000, text)
	if use := OccupancyOf([]Claim{got}, nil); err != nil || !reflect.DeepEqual(use.BusyGPUs, want.Ranks[1].GPUs) {
		t.Errorf("%+v, %v", use, err)
	}
}

// A claim or ticket of a release without depth and shape has neither, and one without these is encoded as in that release. Unknown fields of
// later releases are ignored.
func TestEntriesOfOtherReleases(t *testing.T) {
	want, name := sample(), ticketName(17, "x")
	wanted := Ticket{Number: 17, Job: "j", UID: 1, User: "u", LauncherHost: "f", Size: 3, Since: when, Summary: "s"}
	for _, further := range []string{`}`, `,"depth":3,"shape":4,"node_set":"a+b"}`, `,"later":{"width":[1]}}`} {
		text, _ := encode(claimText{"name", want})
		got, err := decodeClaim("name", 1000, []byte(strings.TrimSuffix(string(text), "}")+further))
		if said := strings.Contains(further, "depth"); err != nil || got.Job != want.Job || (got.CPUsPerRank == 3 && got.ExactPerNode == 4 && got.NodeSet == "a+b") != said || strings.Contains(string(text), "depth") {
			t.Errorf("claim with %s: %+v, %v", further, got, err)
		}
		text, _ = encode(ticketText{name, wanted})
		ticket, err := decodeTicket(name, 1, []byte(strings.TrimSuffix(string(text), "}")+further))
		if said := strings.Contains(further, "depth"); err != nil || (ticket.ExactPerNode == 4 && ticket.NodeSet == "a+b") != said || !said && ticket != wanted {
			t.Errorf("ticket with %s: %+v, %v", further, ticket, err)
		}
	}
}

// Each change makes a valid claim invalid.
func TestClaimRefused(t *testing.T) {
	for what, spoil := range map[string]func(*claimText){
		"name":     func(c *claimText) { c.File = "other" },
		"owner":    func(c *claimText) { c.UID = 0 },
		"no job":   func(c *claimText) { c.Job = "" },
		"long job": func(c *claimText) { c.Job = job.ID(strings.Repeat("j", 41)) },
		"path":     func(c *claimText) { c.Job = "../j" },
		"inside":   func(c *claimText) { c.ParentJob = "a b" },
		"size":     func(c *claimText) { c.Size = -1 },
		"depth":    func(c *claimText) { c.CPUsPerRank = -1 },
		"shape":    func(c *claimText) { c.ExactPerNode = maxCount + 1 },
		"nodes":    func(c *claimText) { c.Nodes = -1 },
		"rank":     func(c *claimText) { c.Ranks[0].Rank = -1 },
		"CPU":      func(c *claimText) { c.Ranks[1].CPUs[1] = -1 },
		"far CPU":  func(c *claimText) { c.Ranks[1].CPUs[1] = maxCPU },
		"GPU":      func(c *claimText) { c.Ranks[1].GPUs = []string{"../card0"} },
		"long GPU": func(c *claimText) { c.Ranks[1].GPUs = []string{strings.Repeat("0", maxAddress+1)} },
	} {
		c := claimText{"name", sample()}
		spoil(&c)
		text, err := encode(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeClaim("name", 1000, text); err == nil {
			t.Errorf("%s: believed %s", what, text)
		}
	}
}

func TestTicketText(t *testing.T) {
	want := Ticket{Number: 17, Job: "j", UID: 1, User: "u", LauncherHost: "f", Size: 3, Since: when, Summary: "s"}
	name := ticketName(17, "x")
	text, err := encode(ticketText{name, want})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeTicket(name, 1, text); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, shape := range []int{-1, maxCount + 1} {
		spoilt := want
		spoilt.ExactPerNode = shape
		text, _ := encode(ticketText{name, spoilt})
		if got, err := decodeTicket(name, 1, text); err == nil {
			t.Errorf("believed %+v", got)
		}
	}
	want.Number = 16 // under the name of 17
	text, _ = encode(ticketText{name, want})
	if got, err := decodeTicket(name, 1, text); err == nil {
		t.Errorf("believed %+v", got)
	}
}

func TestUse(t *testing.T) {
	a, b, c := sample(), sample(), sample()
	a.Exclusive, b.Exclusive = false, false
	b.Job, b.Ranks = "b", []job.ClaimedRank{{Rank: 0}, {Rank: 1, CPUs: []int{4, 2}}}
	c.Job = "c"
	got := OccupancyOf([]Claim{a, b, c}, func(c Claim) bool { return c.Job == "c" })
	if want := (job.Occupancy{Ranks: 4, BoundRanks: 3, BusyCPUs: []int{0, 1, 2, 4, 5}, TopUser: "ann", TopUID: 1000, TopJob: "b", Since: when}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	b.Shares = true
	if got := OccupancyOf([]Claim{a, b}, nil); !slices.Equal(got.SharedCPUs, []int{2}) {
		t.Errorf("shared are %v of %v", got.SharedCPUs, got.BusyCPUs)
	}
	if got := OccupancyOf([]Claim{b}, nil).Union(job.Occupancy{BusyCPUs: []int{4, 9}, SharedCPUs: []int{9}}); !slices.Equal(got.SharedCPUs, []int{2, 9}) {
		t.Errorf("together, shared are %v of %v", got.SharedCPUs, got.BusyCPUs)
	}
	if !OccupancyOf([]Claim{a, c}, nil).ExclusivelyHeld {
		t.Error("an exclusive claim does not count")
	}
}

// A CPU may be used in turns if only gangs have claimed it. A user with very many gangs makes others wait, and takes no memory.
func TestUseOfGangs(t *testing.T) {
	claim := func(id job.ID, party int, cpus ...int) Claim {
		c := Claim{Job: id, UID: 7, Ranks: []job.ClaimedRank{{CPUs: cpus}}}
		if party >= 0 {
			c.Gang = &job.Gang{Party: party, GangTerms: job.DefaultGangTerms}
		}
		return c
	}
	use := OccupancyOf([]Claim{claim("a", 2, 4, 5, 6), claim("plain", -1, 5), claim("b", 0, 6), claim("a", 2, 7)}, nil)
	if got, want := fmt.Sprint(use.GangCPUs), "[{{b 0} [6]} {{a 2} [4 6 7]}]"; got != want {
		t.Errorf("in turns %s, want %s", got, want)
	}
	var many []Claim
	for i := range maxGangs + 1 {
		many = append(many, claim(job.ID(fmt.Sprint("j", i)), i%4, i))
	}
	if use := OccupancyOf(many, nil); len(use.GangCPUs) != maxGangs || len(use.BusyCPUs) != maxGangs+1 || slices.Contains(use.CPUsInTurns(3), maxGangs) {
		t.Errorf("%d gangs, %d CPUs", len(use.GangCPUs), len(use.BusyCPUs))
	}
}

// A claim that an older version wrote is read without the fields that only that version knows.
func TestClaimOfOlderVersion(t *testing.T) {
	const old = `{"file":"claim-x","job":"j","uid":5,"user":"bob","node":"n1","nodes":1,"size":1,"ranks":[{"rank":0,"cpus":null,"gpus":["0000:c7:00.0"]}],` +
		`"since":"2026-01-01T00:00:00Z","suspended":true,"preemptible":"suspend"}`
	c, err := decodeClaim("claim-x", 5, []byte(old))
	if err != nil || c.Job != "j" || c.UID != 5 || len(c.Ranks) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	if use := OccupancyOf([]Claim{c}, nil); use.Ranks != 1 || !slices.Equal(use.BusyGPUs, []string{"0000:c7:00.0"}) {
		t.Errorf("it holds %+v", use)
	}
}

// Texts of other users are cut.
func TestShort(t *testing.T) {
	for in, want := range map[string]string{
		"./a.out ü":                    "./a.out ü",
		"\x1b[2J\n\u202e":              "\x1b[2J\n\u202e",
		"a\xff":                        "a",
		strings.Repeat("x", 2*maxLine): strings.Repeat("x", maxLine),
		strings.Repeat("x", maxLine-1) + "üüü": strings.Repeat("x", maxLine-1),
	} {
		if got := truncate(in); got != want {
			t.Errorf("%.40q: got %.40q, want %.40q", in, got, want)
		}
	}
}

func TestPrefix(t *testing.T) {
	if a, b := namePrefix("one"), namePrefix("two"); a == b || len(a) != len(anyLedger)+17 {
		t.Error(a, b)
	}
}

func TestErrors(t *testing.T) {
	for _, e := range []interface {
		error
		Hint() string
	}{
		&UnusableError{"/d", os.ErrNotExist},
		&LockTimeoutError{"/d", errHeldTooLong},
		&LockTimeoutError{"", &UnusableError{"/d", os.ErrPermission}},
	} {
		if !strings.Contains(e.Error(), "/d") || e.Hint() == "" || strings.Contains(e.Error(), "-1") {
			t.Error(e, e.Hint())
		}
	}
}

// Any file is refused, or decodes to valid values that encode to the same again.
func FuzzDecode(f *testing.F) {
	c, _ := encode(claimText{"name", sample()})
	k, _ := encode(ticketText{ticketName(1, "x"), Ticket{Number: 1, Job: "j", UID: 1000, Since: when}})
	for _, text := range []string{string(c), string(k), "", "{}", "null", `{"file":"name","uid":1000,"job":"j"}`, `{"file":"name","uid":1000,"job":"j","depth":2,"shape":4,"node_set":"\u001b[2J"}`, `{"ranks":[{"cpus":[1e9]}]}`,
		`{"file":"name","uid":1000,"job":"j","gang":{"party":3,"parties":4,"slice":10000000000,"memory":5},"ranks":[{"cpus":[1]}]}`, `{"file":"name","uid":1000,"job":"j","gang":{"party":-1,"parties":99,"slice":1,"memory":-1}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := decodeClaim("name", 1000, text); err == nil {
			again, err := encode(claimText{"name", c})
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			back, err := decodeClaim("name", 1000, again)
			if err != nil || !back.Since.Equal(c.Since) || back.Job != c.Job || len(back.Ranks) != len(c.Ranks) {
				t.Fatalf("%+v came back as %+v, %v", c, back, err)
			}
			sane(t, c.User, c.LauncherHost, c.Node, c.Command, c.Class, c.NodeSet)
			if min(c.CPUsPerRank, c.ExactPerNode) < 0 || max(c.CPUsPerRank, c.ExactPerNode) > maxCount {
				t.Fatalf("%+v", c)
			}
			if c.Gang != nil && !c.Gang.IsValid() {
				t.Fatalf("%+v", c.Gang)
			}
			if u := OccupancyOf([]Claim{c}, nil); u.Ranks != len(c.Ranks) || slices.ContainsFunc(u.BusyCPUs, func(cpu int) bool { return cpu < 0 || cpu >= maxCPU }) {
				t.Fatalf("%+v", u)
			}
		}
		if k, err := decodeTicket(ticketName(1, "x"), 1000, text); err == nil {
			if k.Number != 1 || k.UID != 1000 || checkID(k.Job) != nil || k.ExactPerNode < 0 || k.ExactPerNode > maxCount {
				t.Fatalf("%+v", k)
			}
			sane(t, k.User, k.LauncherHost, k.Summary, k.Nodes, k.NodeSet)
		}
	})
}

// FuzzRequestAndReply is FuzzDecode for requests and replies.
func FuzzRequestAndReply(f *testing.F) {
	const id = "00112233aabbccdd"
	ask, answer := requestNamePrefix("j")+id, kindReply+id
	a, _ := encode(requestText{ask, job.ControlRequest{Job: "j", UID: 1000, User: "u", Verb: job.VerbEnd, Args: []string{"x"}, Since: when}})
	b, _ := encode(replyText{answer, job.ControlReply{Job: "j", UID: 1000, State: job.ReplyDone, Text: "t"}, replyStates{{Node: "n"}}, &replyStacks{Groups: []job.StackGroup{{Ranks: []int{1}, Frames: []job.StackFrame{{Function: "f"}}}}}})
	for _, text := range []string{string(a), string(b), "", "{}", "null", `{"verb":"end","args":["` + strings.Repeat("x", maxLine) + `"]}`,
		`{"file":"` + answer + `","uid":1000,"job":"j","state":"done","data":[{},{"Rank":1,"Stack":"x"},null],"data":null,"data":[{}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if a, random, err := decodeRequest(ask, 1000, text); err == nil {
			if a.UID != 1000 || a.Job != "j" || random != id || !slices.Contains(job.Verbs, a.Verb) || len(a.Args) > maxRequestArgs {
				t.Fatalf("%+v, %s", a, random)
			}
			again, err := encode(requestText{ask, a})
			if back, _, err2 := decodeRequest(ask, 1000, again); err != nil || err2 != nil || back.Verb != a.Verb || !slices.Equal(back.Args, a.Args) {
				t.Fatalf("%+v came back as %+v, %v, %v", a, back, err, err2)
			}
		}
		if a, err := decodeReply(answer, 1000, text); err == nil && (a.UID != 1000 || !a.State.IsKnown() || len(a.Text) > maxLine || len(a.Ranks) > job.MaxRankStates) {
			t.Fatalf("%+v", a)
		}
	})
}

// FuzzName is FuzzDecode for published names.
func FuzzName(f *testing.F) {
	file := nameFilePrefix([]byte("svc")) + "00112233aabbccdd"
	a, _ := encode(nameText{file, Name{Job: "j", UID: 1000, Name: []byte("svc"), Port: []byte("\x1b[2J\xff"), Value: []byte{0}, Once: true}})
	for _, text := range []string{string(a), "", "{}", "null", `{"name":null}`, `{"file":"` + file + `","uid":1000,"job":"j","name":"c3Zj","port":"` + strings.Repeat("A", 8<<10) + `"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := decodeName(file, 1000, text)
		if err != nil {
			return
		}
		if n.UID != 1000 || string(n.Name) != "svc" || checkID(n.Job) != nil || len(n.Name)+len(n.Port)+len(n.Value) > maxNameBytes {
			t.Fatalf("%+v", n)
		}
		again, err := encode(nameText{file, n})
		if back, err2 := decodeName(file, 1000, again); err != nil || err2 != nil || string(back.Port) != string(n.Port) || string(back.Value) != string(n.Value) || back.Once != n.Once {
			t.Fatalf("%+v came back as %+v, %v, %v", n, back, err, err2)
		}
	})
}

// A reply full of states takes no more memory than its file, and has no more ranks than an honest one.
func TestHostileReplyIsBounded(t *testing.T) {
	name := kindReply + "00112233aabbccdd"
	for _, list := range []string{`"data":[` + strings.Repeat("{},", 1_390_000) + `{}]`, strings.Repeat(`"data":[{},{}],`, 270_000) + `"later":false`,
		`"data":[` + strings.Repeat(`{"Waits":"`+strings.Repeat("x", 1<<10)+`"},`, 4000) + `{}]`} {
		text := []byte(`{"file":"` + name + `","job":"j","uid":1000,"state":"done","text":"",` + list + "}")
		if len(text) > maxText {
			t.Fatal(len(text))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a, err := decodeReply(name, 1000, text)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err != nil || len(a.Ranks) > job.MaxRankStates || took > 64<<20 {
			t.Errorf("%.80s: %d states, %v, %d MiB were allocated", list, len(a.Ranks), err, took>>20)
		}
	}
}

// sane checks that texts are bounded. Escaping for terminals is done where they are printed (TRUST-28).
func sane(t *testing.T, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if !utf8.ValidString(s) || len(s) > maxLine {
			t.Fatalf("%q", s)
		}
	}
}

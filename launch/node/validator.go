package node

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"remshell/job"
	"remshell/limit"
	"remshell/wire"
)

/*
A validator stands before all that one helper says: the one gate of TRUST-1. It hears both ends, and so knows
what the helper may say now:

	mpiexec --- tell ----> validator ---------> helper     questions, ranks, credit, Start, End
	mpiexec <-- message -- validator <-- admit - helper    or the first violation, and the end

It does nothing but that: no I/O, no time but that of its clock. What it has let through
needs no second look: ranks are the node's own and in range, answers were asked for, and
output has its credit. What is late, since it crossed a message of ours on its way, is
dropped in silence (TRUST-5).

One goroutine calls admit, any may call tell. Output, which flows by the million lines, is
judged without a lock: its ranks are in a table that is replaced and never changed, and credit
is counted by atomic numbers.
*/
type validator struct {
	linkClock
	ranks atomic.Pointer[rankTable] // of the node's ranks; never nil

	mu         sync.Mutex // guards the rest
	names      []string   // of the node
	greeted    int        // how many of Hello and Node were heard
	questions  openQuestions
	queue      queueAnswers
	groups     map[string]*localGroup
	course     course
	fences     map[string]bool // of PMIx, that are open
	lateFences map[string]bool // that it was told to give up, and has not
	naming     int             // bytes of their names
	requests   rankRequests
	notices    rankRequests // events, which are counted for themselves
	texts      rankRequests // and texts of libraries
	fetches    fetches
	cargo      *cargoHold // nil: no parcels were told of
	logs       pace
	samples    bool // they were asked for
	sessions   bool // directories are to stay
	sampling   pace
	asks       pace
}

// A linkClock knows what is late.
type linkClock struct {
	now     func() time.Time
	silence time.Duration // how long what crossed a message of ours may take
}

// A course is how far the job has come on the node.
type course struct {
	starts   int // groups that were let go
	emptied  int
	drained  int
	cleaned  int
	caught   int
	exceeded int
	again    bool      // an attempt was before this one
	asking   bool      // an Ask was let through that was not answered
	ended    time.Time // when End was said; zero: it was not
	left     time.Time // when Bye was, or Renew
}

// A localGroup is what a node has of a group.
type localGroup struct {
	first   int  // number of the group's rank 0 in the job
	size    int  // ranks of the group, on all nodes
	meets   bool // the group has other nodes: there are fences
	root    bool // it has the group's rank 0
	torch   bool // which is asked where ranks can meet
	address string
	trace   bool
	phase   groupPhase
	ranks   []*rankRecord
	fence   int  // number of the next one
	fencing bool // the one before is open
}

type groupPhase int

const (
	promised groupPhase = iota // Prepare was said
	prepared                   // and Prepared
	letGo                      // and Start
	pruned                     // and Prune
	gone                       // nothing of it is left: Drained was heard
)

// A rankRecord is what is known of a rank of the node. There are as many as a job has ranks, so
// the fields leave no gaps.
type rankRecord struct {
	rank  int
	group *localGroup
	room  [2]atomic.Int64 // credit of stdout and stderr, in bytes
	fed   int             // bytes of its input that were not credited yet
	life  atomic.Int32    // a life
	shut  [2]bool         // its output streams that have ended; belongs to admit
	stdin bool            // it gets ours
	deaf  bool            // and does not read any more
}

type life = int32

const (
	planned life = iota // it is not let go
	going               // it is
	running             // Started was heard
	failed              // that it could not be
	over                // Exited was heard
)

// lateDefault is how long what crossed a message of ours may take, where nobody knows how
// long the link may be silent.
const lateDefault = 45 * time.Second

func newValidator(def job.NodeDef, silence time.Duration) *validator {
	v := &validator{linkClock: linkClock{time.Now, cmp.Or(silence, lateDefault)}, names: append([]string{def.Name, def.Host, def.Address}, def.Aliases...),
		questions: make(openQuestions), queue: newQueueAnswers(), groups: make(map[string]*localGroup), fences: make(map[string]bool), lateFences: make(map[string]bool), fetches: fetches{asked: make(map[int]bool)}, logs: pace{most: 200}, sampling: pace{most: 4}, asks: pace{most: maxAsks}}
	v.ranks.Store(newRankTable(nil))
	return v
}

// admit judges what the helper says. Nothing comes back of what is to be dropped; an error
// is a wire.Violation.
func (v *validator) admit(m wire.Message) (wire.Message, error) {
	if data, ok := m.(*wire.Data); ok && data.Stream != wire.Stdin {
		if err := v.output(data); err != nil {
			return nil, v.unlessLeft(m, err)
		}
		return m, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.greeted < 2 || isGreeting(m) {
		return passed(m, v.greeting(m))
	}
	if _, renewed := m.(*wire.Renewed); renewed {
		return v.questions.answer(m, "Renewed")
	}
	if !v.course.left.IsZero() {
		return nil, v.late(m, v.course.left)
	}
	return v.judge(m)
}

// renew is the validator of a conversation that begins anew: Hello and Node were heard, and nothing else.
func (v *validator) renew() *validator {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := newValidator(job.NodeDef{}, v.silence)
	next.course.again = true
	next.linkClock, next.names, next.greeted, next.logs = v.linkClock, slices.Clone(v.names), v.greeted, v.logs
	return next
}

// passed is a message, or the violation that it is.
func passed(m wire.Message, err error) (wire.Message, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// unlessLeft is a violation in output, unless we have said Bye: then nothing is noted any more
// of which it may be the consequence.
func (v *validator) unlessLeft(m wire.Message, violation error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.course.left.IsZero() {
		return violation
	}
	return v.late(m, v.course.left)
}

// judge finds the rule of a kind (TRUST-4).
func (v *validator) judge(m wire.Message) (wire.Message, error) {
	switch m := m.(type) {
	case *wire.Ping:
		return m, nil
	case *wire.Log:
		return v.logs.pass(v.now(), m), nil
	case *wire.Gated, *wire.Surveyed, *wire.Listed, *wire.Alerted, *wire.Evicted, *wire.Laid, *wire.Sought, *wire.Examined, *wire.Listening, *wire.PeersProbed:
		return v.questions.answer(m, wire.NameOf(m))
	case *wire.Answer:
		return v.questions.answer(m, answerKey(m.ID))
	case *wire.Queued:
		if v.questions["Queued"] != nil {
			return v.questions.answer(m, "Queued")
		}
		return v.queue.moved(v.linkClock, m)
	case *wire.Changed:
		return v.queue.changed(v.now(), m)
	case *wire.Prepared:
		return v.prepared(m)
	case *wire.Refused:
		m.Code = job.StartCode(m.Code)
		return v.dropped(m, m.Group)
	case *wire.Taken:
		return v.dropped(m, m.Group)
	case *wire.Wanted:
		return passed(m, v.cargo.mayWant(m))
	case *wire.Took:
		return v.cargo.took(m)
	case *wire.Staged:
		return passed(m, v.cargo.staged(m))
	case *wire.States:
		return v.states(m)
	case *wire.Ask:
		return v.asked(m)
	case *wire.Data:
		return v.noInput(m)
	case *wire.Credit:
		return v.credit(m)
	case *wire.Started:
		return v.started(m)
	case *wire.Sampled:
		return v.sampled(m)
	case *wire.Exceeded:
		return passed(m, v.exceeded(m))
	case *wire.Exited:
		return passed(m, v.exited(m))
	case *wire.PMI:
		return v.unlessGone(m, v.pmi(m))
	case *wire.Trace:
		return passed(m, v.trace(m))
	case *wire.Fence:
		return v.fence(m)
	case *wire.Name:
		return v.request(m, m.ID)
	case *wire.Peers:
		return v.request(m, m.ID)
	case *wire.Spawn:
		return v.spawn(m)
	case *wire.Notify:
		return v.notify(m)
	case *wire.Utter:
		return v.utter(m)
	case *wire.Fetch:
		return v.fetch(m)
	case *wire.Fetched:
		return passed(m, v.fetches.answered(m))
	case *wire.Caught:
		return passed(m, v.course.over(m, &v.course.caught))
	case *wire.Emptied:
		return passed(m, v.course.over(m, &v.course.emptied))
	case *wire.Cleaned:
		return passed(m, v.cleaned(m))
	case *wire.Drained:
		return passed(m, v.drain(m))
	}
	return nil, violation("it sent %s, which only mpiexec sends", wire.NameOf(m))
}

// The violations of TRUST-2.

func violation(format string, words ...any) error {
	return wire.Violation(fmt.Sprintf(format, words...))
}

var (
	errUnasked = wire.Violation("it answered what was not asked")
	errTooMuch = wire.Violation("it sent more output than it may")
)

func errStranger(rank int) error { return violation("it spoke for rank %d, which is not there", rank) }
func errEnded(rank int) error    { return violation("it spoke of rank %d, which has ended", rank) }

func errEarly(m wire.Message) error {
	return violation("it sent %s before the start", wire.NameOf(m))
}

func errLate(m wire.Message) error {
	return violation("it sent %s after the end", wire.NameOf(m))
}

func errValue(m wire.Message, name string, value any) error {
	article := "a"
	if strings.ContainsRune("AEIOU", rune(wire.NameOf(m)[0])) {
		article = "an"
	}
	return violation("%s %s that cannot be: %s %v", article, wire.NameOf(m), name, value)
}

// late judges what was right until a moment: it may have been on its way.
func (c linkClock) late(m wire.Message, since time.Time) error {
	if c.now().Sub(since) > c.silence {
		return errLate(m)
	}
	return nil
}

// shift moves all moments: they do not count while mpiexec is stopped.
func (v *validator) shift(by time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range []*time.Time{&v.course.ended, &v.course.left, &v.queue.dequeued} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

// begun sees that something of the job was let go here.
func (c *course) begun(m wire.Message) error {
	if c.starts == 0 {
		return errEarly(m)
	}
	return nil
}

// over hears what is said once for each time that something was let go here.
func (c *course) over(m wire.Message, said *int) error {
	switch {
	case c.starts == 0:
		return errEarly(m)
	case *said >= c.starts:
		return violation("it sent %s twice", wire.NameOf(m))
	}
	*said++
	return nil
}

func isGreeting(m wire.Message) bool {
	switch m.(type) {
	case *wire.Hello, *wire.Node:
		return true
	}
	return false
}

// greeting hears Hello and Node, first and second.
func (v *validator) greeting(m wire.Message) error {
	want := -1
	switch m := m.(type) {
	case *wire.Hello:
		want = 0
	case *wire.Node:
		want = 1
		v.names = append(v.names, m.Probe.Hostname)
	}
	switch {
	case want == v.greeted:
		v.greeted++
		return nil
	case want < 0:
		return errEarly(m)
	case want < v.greeted:
		return violation("it sent %s twice", wire.NameOf(m))
	}
	return errEarly(m)
}

// prepared hears that a part of a group is ready, and where its ranks can meet (TRUST-3).
func (v *validator) prepared(m *wire.Prepared) (wire.Message, error) {
	answer, err := v.questions.answer(m, groupKey(m.Group))
	p := v.groups[m.Group]
	if err != nil || answer == nil || p == nil {
		return nil, err
	}
	p.phase = prepared
	switch {
	case m.Meet == "":
	case !p.root:
		return nil, errStranger(p.first)
	case !p.torch:
		return nil, errUnasked
	case !v.canMeet(m.Meet, p.address):
		return nil, errValue(m, "meeting point", strconv.Quote(m.Meet))
	}
	return m, nil
}

// canMeet reports whether an address is one of the node, and has a port.
func (v *validator) canMeet(meet, address string) bool {
	host, port, err := net.SplitHostPort(meet)
	n, noNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || noNumber != nil || n == 0 || host == "" {
		return false
	}
	_, noAddress := netip.ParseAddr(host)
	return noAddress == nil || host == address || slices.Contains(v.names, host)
}

// dropped hears that there will be no part of a group here.
func (v *validator) dropped(m wire.Message, group string) (wire.Message, error) {
	answer, err := v.questions.answer(m, groupKey(group))
	if answer != nil {
		v.forget(group)
	}
	return answer, err
}

// states hears what ranks are doing, each at most once.
func (v *validator) states(m *wire.States) (wire.Message, error) {
	seen := make(map[int]bool)
	for _, r := range m.Ranks {
		s := v.rank(r.Rank)
		switch {
		case s == nil:
			return nil, errStranger(r.Rank)
		case seen[r.Rank]:
			return nil, errValue(m, "rank", fmt.Sprint(r.Rank, " twice"))
		}
		seen[r.Rank] = true
	}
	return v.questions.answer(m, "States")
}

// sampled hears what processes have: each rank that was let go at most once, and no more often
// than there are samples (RM-51).
func (v *validator) sampled(m *wire.Sampled) (wire.Message, error) {
	if err := v.course.begun(m); err != nil {
		return nil, err
	}
	if !v.samples {
		return nil, errUnasked
	}
	seen := make(map[int]bool, len(m.Ranks))
	for _, r := range m.Ranks {
		s := v.rank(r.Rank)
		switch {
		case s == nil:
			return nil, errStranger(r.Rank)
		case s.life.Load() == planned:
			return nil, errEarly(m)
		case seen[r.Rank]:
			return nil, errValue(m, "rank", fmt.Sprint(r.Rank, " twice"))
		}
		seen[r.Rank] = true
	}
	return v.sampling.pass(v.now(), m), nil
}

// exceeded hears that more was used than the node allows: of its own ranks, and of what it can know.
func (v *validator) exceeded(m *wire.Exceeded) error {
	if err := v.course.over(m, &v.course.exceeded); err != nil {
		return err
	}
	what, one := m.Bound.Resource, m.Bound.Resource == limit.RankMem
	switch s := v.rank(m.Rank); {
	case !what.Host() || what.Kernel():
		return errValue(m, "limit", string(what))
	case one && m.Rank == -1: // processes of no rank
	case one && s == nil:
		return errStranger(m.Rank)
	case one && s.life.Load() == planned:
		return errEarly(m)
	case !one && m.Rank != -1:
		return errValue(m, "rank", fmt.Sprint(m.Rank))
	case m.Used <= m.Bound.Most:
		return errValue(m, "use", fmt.Sprint(m.Used))
	}
	return nil
}

// cleaned hears what ranks that are gone have left: those of the node, and what there is of the kind.
func (v *validator) cleaned(m *wire.Cleaned) error {
	if err := v.course.over(m, &v.course.cleaned); err != nil {
		return err
	}
	for _, r := range m.Remnants {
		switch {
		case r.Rank != -1 && v.rank(r.Rank) == nil:
			return errStranger(r.Rank)
		case r.Kind != job.SysVShm && r.Kind != job.PosixShm:
			return errValue(m, "kind", strconv.Quote(r.Kind))
		}
	}
	return nil
}

func groupKey(name string) string { return "group " + name }

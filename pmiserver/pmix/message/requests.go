package message

import (
	"fmt"

	"remshell/pmiserver/pmix/bfrops"
)

// Req is a request for the job info, which describes the ranks and nodes of the client's own group
// (pmix-wire.md 6.1).
type Req struct{}

func (*Req) read(*bfrops.Reader) {}

func (*Req) trace(*traceLine) {}

// Abort is a request to end the job (pmix-wire.md 6.6).
type Abort struct {
	Code    int32
	Message string // "N/A" or empty: no message
	Procs   []bfrops.Proc
}

func (a *Abort) read(r *bfrops.Reader) {
	a.Code = r.Status()
	a.Message = r.Text()
	a.Procs = r.Procs()
}

func (a *Abort) trace(l *traceLine) {
	l.word("%d %s", a.Code, quote(a.Message))
	l.procs(a.Procs)
}

// Commit is a request to store the data that the client has put since its last commit, so that other ranks can get it
// (pmix-wire.md 6.2).
type Commit struct {
	Parts []CommitPart // empty if nothing was put
}

// A CommitPart is the part of the committed data with one particular scope.
type CommitPart struct {
	Scope Scope
	Pairs []byte   // encoded key-value pairs, as sent
	Keys  []string // keys of the pairs, in their order
}

// A Scope says which ranks may read data that a rank has put.
type Scope uint8

// These are the scopes of a Commit. A client sends data that is meant for all ranks twice, once in each scope.
const (
	ScopeLocal  Scope = 1 // ranks of the same node
	ScopeRemote Scope = 2 // ranks of other nodes
)

func (c *Commit) read(r *bfrops.Reader) {
	for r.More() {
		part := CommitPart{Scope: Scope(r.Byte()), Pairs: r.Buffer()}
		if part.Scope != ScopeLocal && part.Scope != ScopeRemote {
			r.Fail(fmt.Errorf("%w: unknown scope %d of keys to store", bfrops.ErrBound, part.Scope))
		}
		part.Keys = keysOf(r, part.Pairs)
		c.Parts = append(c.Parts, part)
	}
}

func (c *Commit) trace(l *traceLine) {
	for _, part := range c.Parts {
		l.pairs(part)
	}
}

// keysOf returns the keys of encoded pairs. If the pairs are malformed, it records an error in r (rule
// PMIX-28).
func keysOf(r *bfrops.Reader, pairs []byte) (keys []string) {
	inner := bfrops.NewReader(pairs)
	for inner.More() {
		keys = append(keys, inner.Pair().Key)
	}
	if err := inner.Err(); err != nil {
		r.Fail(err)
	}
	return keys
}

// Fence is a request to wait for all processes of a set. With the option Collect, the processes also exchange
// the data that they have committed (pmix-wire.md 6.3).
type Fence struct {
	Procs   []bfrops.Proc // at least 1
	Options Options       // Collect, Timeout
}

func (f *Fence) read(r *bfrops.Reader) { f.Procs, f.Options = nonEmptyProcs(r), r.Infos() }

func (f *Fence) trace(l *traceLine) { l.procs(f.Procs); l.options(f.Options) }

// nonEmptyProcs reads a list of processes. An empty list is an error, which r.Err then returns.
func nonEmptyProcs(r *bfrops.Reader) []bfrops.Proc {
	procs := r.Procs()
	if len(procs) == 0 && r.Err() == nil {
		r.Fail(fmt.Errorf("%w: a list of processes is empty", bfrops.ErrBound))
	}
	return procs
}

// Get is a request for data that a rank has committed, or for job info about a rank (pmix-wire.md 6.4).
type Get struct {
	Namespace string
	Rank      bfrops.Rank
	Options   Options // Immediate, Timeout
	Key       string  // empty from clients before 3.2: all data
}

func (g *Get) read(r *bfrops.Reader) {
	g.Namespace = r.Namespace()
	g.Rank = r.Rank()
	g.Options = r.Infos()
	if r.More() {
		g.Key = r.Key()
	}
}

func (g *Get) trace(l *traceLine) {
	l.word("%s %s", procText(bfrops.Proc{Namespace: g.Namespace, Rank: g.Rank}), quoteUnlessPlain(g.Key))
	l.options(g.Options)
}

// Finalize is a request to end the client's use of PMIx (pmix-wire.md 6.5).
type Finalize struct{}

func (*Finalize) read(*bfrops.Reader) {}

func (*Finalize) trace(*traceLine) {}

// Publish is a request to publish values under names, so that other ranks can look them up (pmix-wire.md
// 6.8).
type Publish struct {
	UID   uint32
	Infos Options // options ("pmix." keys) and the data (all other keys)
}

func (p *Publish) read(r *bfrops.Reader) { p.UID, p.Infos = r.Uint32(), r.Infos() }

func (p *Publish) trace(l *traceLine) { l.options(p.Infos) }

// Lookup is a request for published values (pmix-wire.md 6.8).
type Lookup struct {
	UID     uint32
	Keys    []string
	Options Options // Range, Wait, Timeout
}

func (l *Lookup) read(r *bfrops.Reader) { l.UID, l.Keys, l.Options = r.Uint32(), r.Keys(), r.Infos() }

func (l *Lookup) trace(line *traceLine) { line.keys(l.Keys); line.options(l.Options) }

// Unpublish is a request to remove published names (pmix-wire.md 6.8).
type Unpublish struct {
	UID     uint32
	Keys    []string
	Options Options // Range
}

func (u *Unpublish) read(r *bfrops.Reader) {
	u.UID, u.Keys, u.Options = r.Uint32(), r.Keys(), r.Infos()
}

func (u *Unpublish) trace(l *traceLine) { l.keys(u.Keys); l.options(u.Options) }

// Spawn is a request to start programs as a new group of ranks (pmix-wire.md 6.9).
type Spawn struct {
	Options  Options
	Programs []bfrops.Program // at least 1
}

func (s *Spawn) read(r *bfrops.Reader) { s.Options, s.Programs = r.Infos(), r.Programs() }

func (s *Spawn) trace(l *traceLine) {
	addFirst(l, s.Programs, func(p bfrops.Program) string {
		return fmt.Sprintf("%s in %d ranks", quoteUnlessPlain(p.Command), p.Ranks)
	})
	l.options(s.Options)
}

// Connect is a request to wait for all processes of a set. Afterwards the processes know each other's job info,
// and an abort of one group ends all connected groups (pmix-wire.md 6.10).
type Connect struct {
	Procs   []bfrops.Proc // at least 1
	Options Options       // Timeout
}

func (c *Connect) read(r *bfrops.Reader) { c.Procs, c.Options = nonEmptyProcs(r), r.Infos() }

func (c *Connect) trace(l *traceLine) { l.procs(c.Procs); l.options(c.Options) }

// Disconnect is a request to wait for all processes of a connected set, and then to undo their Connect (pmix-wire.md
// 6.10).
type Disconnect struct {
	Procs   []bfrops.Proc // at least 1
	Options Options       // Timeout
}

func (d *Disconnect) read(r *bfrops.Reader) { d.Procs, d.Options = nonEmptyProcs(r), r.Infos() }

func (d *Disconnect) trace(l *traceLine) { l.procs(d.Procs); l.options(d.Options) }

// Notify is a request to send an event to other ranks (pmix-wire.md 6.7).
type Notify struct {
	Event Status
	Range Range
	Infos Options
}

func (n *Notify) read(r *bfrops.Reader) {
	n.Event, n.Range, n.Infos = Status(r.Status()), Range(r.Byte()), r.Infos()
}

// Targets returns the list of processes to which the server must send an event with the range ListedProcs. ok
// is false if the request has no list.
func (n *Notify) Targets() (procs []bfrops.Proc, ok bool) {
	v, _ := n.Infos.Find("pmix.evrange")
	return v.Procs()
}

func (n *Notify) trace(l *traceLine) {
	l.word("%d range %d", int32(n.Event), n.Range)
	l.options(n.Infos)
}

// RegEvents is a request to register a handler for events with the given codes. A request without codes registers a
// default handler, for events that no other handler receives (pmix-wire.md 6.7).
type RegEvents struct {
	Codes   []int32
	Options Options
}

func (e *RegEvents) read(r *bfrops.Reader) { e.Codes, e.Options = r.Statuses(), r.Infos() }

func (e *RegEvents) trace(l *traceLine) { l.events(e.Codes); l.options(e.Options) }

// DeregEvents is a request to remove event codes that RegEvents has registered. It has no reply (pmix-wire.md
// 6.7).
type DeregEvents struct {
	Codes []int32 // at most bfrops.MaxInfos
}

func (e *DeregEvents) read(r *bfrops.Reader) {
	for r.More() {
		if len(e.Codes) == bfrops.MaxInfos {
			r.Fail(fmt.Errorf("%w: it names more than %d events", bfrops.ErrBound, bfrops.MaxInfos))
			return
		}
		e.Codes = append(e.Codes, r.Status())
	}
}

func (e *DeregEvents) trace(l *traceLine) { l.events(e.Codes) }

// Query is a request for information about the job or the system (pmix-wire.md 6.13).
type Query struct {
	Questions []bfrops.Question
}

func (q *Query) read(r *bfrops.Reader) { q.Questions = r.Queries() }

func (q *Query) trace(l *traceLine) {
	for _, question := range q.Questions {
		l.keys(question.Keys)
		l.options(question.Qualifiers)
	}
}

// Log is a request to print messages of the client (pmix-wire.md 6.12).
type Log struct {
	Time       int64 // seconds since 1970, mostly 0
	Data       Options
	Directives Options
}

func (l *Log) read(r *bfrops.Reader) { l.Time, l.Data, l.Directives = r.Time(), r.Infos(), r.Infos() }

func (l *Log) trace(line *traceLine) { line.options(l.Data); line.options(l.Directives) }

// JobControl is a request to control processes, or to remove files after a process has ended (pmix-wire.md
// 6.14).
type JobControl struct {
	Procs      []bfrops.Proc // empty: all processes
	Directives Options
}

func (j *JobControl) read(r *bfrops.Reader) { j.Procs, j.Directives = r.Procs(), r.Infos() }

func (j *JobControl) trace(l *traceLine) { l.procs(j.Procs); l.options(j.Directives) }

// GroupConstruct is a request to wait for all processes of a set, and to make them a PMIx group (pmix-wire.md
// 6.11).
type GroupConstruct struct {
	ID      string // at most bfrops.MaxKey bytes
	Procs   []bfrops.Proc
	Options Options // ContextID, Timeout
}

func (g *GroupConstruct) read(r *bfrops.Reader) {
	g.ID, g.Procs, g.Options = r.Key(), nonEmptyProcs(r), r.Infos()
}

func (g *GroupConstruct) trace(l *traceLine) {
	l.word("%s", quoteUnlessPlain(g.ID))
	l.procs(g.Procs)
	l.options(g.Options)
}

// GroupDestruct is a request to wait for all processes of a PMIx group, and to remove the group (pmix-wire.md
// 6.11).
type GroupDestruct struct {
	ID      string        // at most bfrops.MaxKey bytes
	Procs   []bfrops.Proc // empty from clients of version 4: the members that constructed the group
	Options Options       // Timeout
}

func (g *GroupDestruct) read(r *bfrops.Reader) {
	g.ID = r.Key()
	before := *r
	if g.Procs, g.Options = r.Procs(), r.Infos(); r.Err() != nil {
		*r, g.Procs = before, nil
		g.Options = r.Infos()
	}
}

func (g *GroupDestruct) trace(l *traceLine) {
	l.word("%s", quoteUnlessPlain(g.ID))
	l.procs(g.Procs)
	l.options(g.Options)
}

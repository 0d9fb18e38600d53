package reserve

import (
	"fmt"
	"sync"
	"time"

	"remshell/hostlist"
	"remshell/job"
)

// progressEvery is how often the state of a start is shown anew.
const progressEvery = 250 * time.Millisecond

// nameSlowAfter is how long a host may take until it is named.
const nameSlowAfter = 5 * time.Second

// A startProgress is how far a start has come (DIAG-6): connecting 41/64 · slow: n17,n33 (8 s).
type startProgress struct {
	env    Env
	began  time.Time
	hosts  []job.NodeDef
	mu     sync.Mutex // guards the next two
	heard  []bool     // of hosts: it has answered
	count  int        // of those that have
	lineAt func(passed time.Duration) string
	quit   chan struct{}
	over   chan struct{}
}

// watchConnects shows, from Env.Late on, how many of the hosts have answered. stop takes the
// line away.
func watchConnects(env Env, hosts []job.NodeDef) (answered func(i int), stop func()) {
	if env.Progress == nil || len(hosts) == 0 {
		return func(int) {}, func() {}
	}
	p := &startProgress{env: env, began: time.Now(), hosts: hosts, heard: make([]bool, len(hosts)),
		quit: make(chan struct{}), over: make(chan struct{})}
	p.lineAt = p.text
	go p.run()
	return p.answered, func() { close(p.quit); <-p.over }
}

// answered notes that host i has. It is called once for each.
func (p *startProgress) answered(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard[i] = true
	p.count++
}

func (p *startProgress) run() {
	defer close(p.over)
	next := time.NewTimer(p.env.ProgressAfter)
	defer next.Stop()
	shown := false
	for {
		select {
		case <-next.C:
			p.env.Progress(p.lineAt(time.Since(p.began)))
			shown = true
			next.Reset(progressEvery)
		case <-p.quit:
			if shown {
				p.env.Progress("")
			}
			return
		}
	}
}

// text is the line for people.
func (p *startProgress) text(passed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("connecting %d/%d", p.count, len(p.hosts))
	if passed < nameSlowAfter || p.count == len(p.hosts) {
		return text
	}
	var slow []string // in their order
	for i, def := range p.hosts {
		if !p.heard[i] {
			slow = append(slow, def.Name)
		}
	}
	return text + fmt.Sprintf(" · slow: %s (%d s)", hostlist.Fold(slow), int(passed.Seconds()))
}

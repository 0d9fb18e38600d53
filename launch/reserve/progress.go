package reserve

import (
	"fmt"
	"sync"
	"time"

	"remshell/hostlist"
	"remshell/job"
)

// progressEvery is how often the shown state of a start is updated.
const progressEvery = 250 * time.Millisecond

// nameSlowAfter is how long a host may take before it is named as slow.
const nameSlowAfter = 5 * time.Second

// A startProgress shows the state of a start (DIAG-6): connecting 41/64 · slow: n17,n33 (8 s).
type startProgress struct {
	env    Env
	began  time.Time
	hosts  []job.NodeDef
	mu     sync.Mutex // guards the next two fields
	done   []bool     // for each host: it is connected, or has failed
	count  int        // number of hosts that are done
	lineAt func(passed time.Duration) string
	quit   chan struct{}
	over   chan struct{}
}

// watchConnects shows, from Env.ProgressAfter on, how many hosts have answered. stop removes the line.
func watchConnects(env Env, hosts []job.NodeDef) (answered func(i int), stop func()) {
	if env.Progress == nil || len(hosts) == 0 {
		return func(int) {}, func() {}
	}
	p := &startProgress{env: env, began: time.Now(), hosts: hosts, done: make([]bool, len(hosts)),
		quit: make(chan struct{}), over: make(chan struct{})}
	p.lineAt = p.text
	go p.run()
	return p.answered, func() { close(p.quit); <-p.over }
}

// answered notes that host i is connected or has failed. It is called once for each host.
func (p *startProgress) answered(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[i] = true
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

// text returns the line for the user.
func (p *startProgress) text(passed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("connecting %d/%d", p.count, len(p.hosts))
	if passed < nameSlowAfter || p.count == len(p.hosts) {
		return text
	}
	var slow []string // in their order
	for i, def := range p.hosts {
		if !p.done[i] {
			slow = append(slow, def.Name)
		}
	}
	return text + fmt.Sprintf(" · slow: %s (%d s)", hostlist.Fold(slow), int(passed.Seconds()))
}

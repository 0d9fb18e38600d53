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

// slowAfter is how long a host may take until it is named.
const slowAfter = 5 * time.Second

// A progress is how far a start has come (DIAG-6): connecting 41/64 · slow: n17,n33 (8 s).
type progress struct {
	env   Env
	began time.Time
	mu    sync.Mutex // guards open
	open  []string   // hosts that have not answered, in their order
	hosts int
	words func(passed time.Duration) string
	quit  chan struct{}
	over  chan struct{}
}

// watchConnects shows, from Env.Late on, how many of the hosts have answered. stop takes the
// line away.
func watchConnects(env Env, defs []job.NodeDef) (answered func(job.NodeDef), stop func()) {
	if env.Progress == nil || len(defs) == 0 {
		return func(job.NodeDef) {}, func() {}
	}
	p := &progress{env: env, began: time.Now(), hosts: len(defs), quit: make(chan struct{}), over: make(chan struct{})}
	for _, def := range defs {
		p.open = append(p.open, def.Name)
	}
	p.words = p.text
	go p.run()
	return p.answered, func() { close(p.quit); <-p.over }
}

func (p *progress) answered(def job.NodeDef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, name := range p.open {
		if name == def.Name {
			p.open = append(p.open[:i:i], p.open[i+1:]...)
			return
		}
	}
}

func (p *progress) run() {
	defer close(p.over)
	next := time.NewTimer(p.env.Late)
	defer next.Stop()
	shown := false
	for {
		select {
		case <-next.C:
			p.env.Progress(p.words(time.Since(p.began)))
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
func (p *progress) text(passed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("connecting %d/%d", p.hosts-len(p.open), p.hosts)
	if passed >= slowAfter && len(p.open) > 0 {
		text += fmt.Sprintf(" · slow: %s (%d s)", hostlist.Fold(p.open), int(passed.Seconds()))
	}
	return text
}

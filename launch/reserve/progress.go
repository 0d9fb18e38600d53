package reserve

import (
	"fmt"
	"sync"
	"time"

	"remshell/hostlist"
	"remshell/job"
)

// progressEvery is how often the progress line of a start is updated.
const progressEvery = 250 * time.Millisecond

// nameSlowAfter is how long a host may take to connect before the progress line names it.
const nameSlowAfter = 5 * time.Second

// A startProgress composes the line that shows the progress of a start (rule DIAG-6), such as "connecting
// 41/64 · slow: n17,n33 (8 s)".
type startProgress struct {
	began time.Time
	hosts []job.NodeDef
	mu    sync.Mutex // guards the rest
	done  []bool     // for each host: it is connected, or has failed
	count int        // number of hosts that are done
}

// watchConnects shows a progress line if connecting takes longer than Env.ProgressAfter. The caller calls answered for
// each host that has connected or failed, and stop to remove the line.
func watchConnects(env Env, hosts []job.NodeDef) (answered func(i int), stop func()) {
	if len(hosts) == 0 {
		return func(int) {}, func() {}
	}
	p := &startProgress{began: time.Now(), hosts: hosts, done: make([]bool, len(hosts))}
	return p.answered, showProgress(env, func() string { return p.text(time.Since(p.began)) })
}

// answered records that host i has connected or failed. It must be called only once for each host.
func (p *startProgress) answered(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[i] = true
	p.count++
}

// showProgress shows a progress line after Env.ProgressAfter. It calls line on another goroutine to get the current
// text. The returned function stop removes the text from the terminal. If Env.Progress is nil, showProgress does
// nothing.
func showProgress(env Env, line func() string) (stop func()) {
	if env.Progress == nil {
		return func() {}
	}
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		next := time.NewTimer(env.ProgressAfter)
		defer next.Stop()
		for shown := false; ; {
			select {
			case <-next.C:
				env.Progress(line())
				shown = true
				next.Reset(progressEvery)
			case <-quit:
				if shown {
					env.Progress("")
				}
				return
			}
		}
	}()
	return func() { close(quit); <-over }
}

// text returns the progress line. elapsed is the time since mpiexec began to connect to the hosts.
func (p *startProgress) text(elapsed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("connecting %d/%d", p.count, len(p.hosts))
	if elapsed < nameSlowAfter || p.count == len(p.hosts) {
		return text
	}
	var slow []string // in their order
	for i, def := range p.hosts {
		if !p.done[i] {
			slow = append(slow, def.Name)
		}
	}
	return text + fmt.Sprintf(" · slow: %s (%d s)", hostlist.Fold(slow), int(elapsed.Seconds()))
}

/*
Package interim is the feature of mpiexec that writes the file of --report at intervals while the job runs
(--report-every). It is for jobs that may be killed together with mpiexec.

	--report-every: Reports --> attach --> Due: the result so far --> writer --> FILE, replaced
*/
package interim

import (
	"sync"
	"time"

	"remshell/launch"
	"remshell/userfile"
)

func init() { launch.Register(launch.Feature{Name: "interim results", Attach: attach}) }

func attach(j *launch.Job) {
	reports, wanted := launch.SettingOf[*Reports](j)
	if !wanted {
		return
	}
	var w writer
	next := time.Now().Add(reports.Every)
	j.Hooks.Due.Add(func(now time.Time) time.Time {
		if !now.Before(next) {
			next = now.Add(reports.Every)
			run := reports.Record(j.ResultSoFar())
			w.start(func() { userfile.Replace(reports.File, run.Write) }) // what fails here fails at the end, too, and is reported then
		}
		return next
	})
	j.Hooks.Closing.Add(w.wait) // the report at the end is the last one
}

// A writer writes a file in another goroutine. Only one write is in progress at a time.
type writer struct {
	writing sync.Mutex // held while writing
}

// start calls write in another goroutine. It does nothing if the last write is still in progress.
func (w *writer) start(write func()) {
	if w.writing.TryLock() {
		go func() {
			defer w.writing.Unlock()
			write()
		}()
	}
}

// wait waits until the last write is complete.
func (w *writer) wait() {
	w.writing.Lock()
	defer w.writing.Unlock()
}

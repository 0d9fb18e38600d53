package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"remshell/cli/record"
	"remshell/job"
	"remshell/simulate"
	"remshell/usererr"
	"remshell/userfile"
)

// This file writes the record of a run: to the file of --report, and as a line to the cluster's accounting file.

// A runRecorder collects and writes the record of a run.
type runRecorder struct {
	invocation *invocation
	began      time.Time
	plan       json.RawMessage
	interim    interimWriter
}

// startRecord prepares the record of a run (--report, accounting_file). The caller passes the result of
// the run to ended, which writes the record.
func (c *invocation) startRecord() (ended func(job.Result, error), err error) {
	r := &runRecorder{invocation: c, began: time.Now()}
	j := c.line.Job
	every := j.ReportEvery.Duration()
	if j.ReportFile != "" {
		if err := userfile.CheckWritable(j.ReportFile, every > 0); err != nil {
			return nil, &usererr.Error{Text: fmt.Sprintf("--report: %v", err), Remedy: cmp.Or(usererr.Hint(err), "give a file that can be written")}
		}
		c.onPlan(func(snap job.Snapshot, p job.Plan) {
			var b bytes.Buffer
			if simulate.Write(&b, simulate.OutcomeOf(c.req, snap, p, c.warnings)) == nil {
				r.plan = b.Bytes()
			}
		})
	}
	if every > 0 {
		if info, err := os.Stat(j.ReportFile); err == nil && !info.Mode().IsRegular() {
			return nil, &usererr.Error{Text: "--report-every: " + j.ReportFile + " is not a regular file", Remedy: "each report replaces the file; give a regular file, or leave out --report-every"}
		}
		c.env.InterimResult, c.env.InterimEvery = r.writeInterim, every
	}
	return r.writeFinal, nil
}

// addToRecord adds to run what the result does not have: usage, batch job, job ID, times and plan.
func (r *runRecorder) addToRecord(run *record.Run, result job.Result) {
	run.AddUsage(result, r.invocation.req.ResourceLimits)
	run.RM, run.Job, run.Began, run.Seconds, run.Plan = r.invocation.req.RM, r.invocation.req.Job, r.began, time.Since(r.began).Seconds(), r.plan
}

// writeInterim writes a record with the result so far. It does so in another goroutine.
func (r *runRecorder) writeInterim(result job.Result) {
	run := record.NewInterim(result)
	r.addToRecord(&run, result)
	r.interim.startWrite(func() error { return userfile.Replace(r.invocation.line.Job.ReportFile, run.Write) })
}

// writeFinal writes the record of a run that has ended.
func (r *runRecorder) writeFinal(result job.Result, err error) {
	c, failed := r.invocation, r.interim.awaitWrite()
	run := record.NewRun(result, err, exitCode(result.Code, err, c.ownErrorCode))
	r.addToRecord(&run, result)
	switch file := c.line.Job.ReportFile; {
	case file == "":
	case c.line.Job.ReportEvery > 0:
		failed = userfile.Replace(file, run.Write)
	default:
		failed = userfile.Write(file, run.Write)
	}
	if failed != nil {
		c.sys.newMessagePrinter(c.sys.Err, c.line.Job).printError(fmt.Errorf("--report: %w", failed)) // the run's own printer is closed by now
	}
	if site := c.inputs.Cluster; site != nil && site.AccountingFile != "" {
		if line, hasRanks := run.AccountingLine(c.req, c.line.Job.Class); hasRanks {
			if err := appendLine(site.AccountingFile, line); err != nil {
				c.sys.newMessagePrinter(c.sys.Err, c.line.Job).printError(fmt.Errorf("%s: accounting_file: %w", site.File, err))
			}
		}
	}
}

// An interimWriter writes interim records in the background. It writes one at a time.
type interimWriter struct {
	writing sync.Mutex // held while writing
	lastErr error      // error of the last write; guarded by writing
}

// startWrite calls write in another goroutine. It does nothing if the last write is still in progress.
func (i *interimWriter) startWrite(write func() error) {
	if i.writing.TryLock() {
		go func() {
			defer i.writing.Unlock()
			i.lastErr = write()
		}()
	}
}

// awaitWrite waits for the end of the last write and returns its error.
func (i *interimWriter) awaitWrite() error {
	i.writing.Lock()
	defer i.writing.Unlock()
	return i.lastErr
}

// accountsLockTimeout is how long appendLine waits for the lock of the accounting file. Any user who can
// write to the file could hold the lock for ever. The lock is needed only on file systems where parallel
// appends may mix.
const accountsLockTimeout = 2 * time.Second

// checkAppendable returns why appendLine could not append to a file, or nil. It neither writes nor
// creates the file.
func checkAppendable(name string) error {
	f, err := userfile.OpenFile(name, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		const writeAndSearch = 2 | 1
		if err := syscall.Access(filepath.Dir(name), writeAndSearch); err != nil {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return nil // a job creates it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	return nil
}

// appendLine appends a line to a file with one write. It creates the file if it is missing.
func appendLine(name string, line []byte) error {
	f, err := userfile.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	for until := time.Now().Add(accountsLockTimeout); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != syscall.EWOULDBLOCK {
			break // locked, or the file system has no locks
		}
	}
	_, err = f.Write(line)
	return err
}

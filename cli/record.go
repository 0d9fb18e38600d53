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
	"syscall"
	"time"

	"remshell/cli/record"
	"remshell/job"
	"remshell/simulate"
	"remshell/usererr"
	"remshell/userfile"
)

// This file writes the record of a run: to the file of --report, and as a line to the cluster's accounting file.

// A runRecorder collects the record of a run (--report, accounting_file) and writes it.
type runRecorder struct {
	invocation *invocation
	began      time.Time
	plan       json.RawMessage
}

// startRecord prepares to write the record of a run (--report, accounting_file). The caller must call ended
// with the result of the run. ended writes the record.
func (c *invocation) startRecord() (ended func(job.Result, error), err error) {
	r := &runRecorder{invocation: c, began: time.Now()}
	j := c.line.Job
	if j.ReportFile != "" {
		if err := userfile.CheckWritable(j.ReportFile, c.features.ReplaceReport); err != nil {
			return nil, &usererr.Error{Text: fmt.Sprintf("--report: %v", err), Remedy: cmp.Or(usererr.Hint(err), "choose a file that you can write")}
		}
		c.onPlan(func(snap job.Snapshot, p job.Plan) {
			var b bytes.Buffer
			if simulate.Write(&b, simulate.OutcomeOf(c.req, snap, p, c.warnings)) == nil {
				r.plan = b.Bytes()
			}
		})
	}
	c.features.Record = r.recordSoFar
	return r.writeFinal, nil
}

// addToRecord adds usage, batch job, job ID, times and plan to the record of a run.
func (r *runRecorder) addToRecord(run *record.Run, result job.Result) {
	run.AddUsage(result, r.invocation.req.ResourceLimits)
	run.RM, run.Job, run.Began, run.Seconds, run.Plan = r.invocation.req.RM, r.invocation.req.Job, r.began, time.Since(r.began).Seconds(), r.plan
}

// recordSoFar returns the record of a job that may still be running. result is the job's result so far.
func (r *runRecorder) recordSoFar(result job.Result) record.Run {
	run := record.NewInterim(result)
	r.addToRecord(&run, result)
	return run
}

// writeFinal writes the record of a run that has ended.
func (r *runRecorder) writeFinal(result job.Result, err error) {
	c := r.invocation
	run := record.NewRun(result, err, exitCode(result.Code, err, c.ownErrorCode))
	r.addToRecord(&run, result)
	var failed error
	switch file := c.line.Job.ReportFile; {
	case file == "":
	case c.features.ReplaceReport:
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

// accountsLockTimeout is how long appendLine waits for the lock of the accounting file. It is limited because any user
// who can write to the file could hold the lock forever. Without the lock, the lines of two processes could be
// interleaved on some file systems.
const accountsLockTimeout = 2 * time.Second

// checkAppendable returns an error if appendLine could not append to a file. It neither writes nor creates
// the file.
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

// appendLine appends a line to a file in a single write. It creates the file if it is missing.
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

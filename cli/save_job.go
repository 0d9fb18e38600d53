package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/cli/saved"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/nsswitch"
	"remshell/usererr"
	"remshell/userfile"
)

/*
This file keeps a job for another mpiexec (--save-job), and takes one up (--resume; survive.md 6).

	FILE.lock   locked while an mpiexec lives that writes FILE; says which one
	FILE        a new one takes its place: before the job has its plan, with each attempt, at the end

Both are code (TRUST-27): nobody but their owner may read or write them, or put others in their place.
*/

// A savedJobFile is the file of a saved job, which we alone write.
type savedJobFile struct {
	name        string
	lock        *os.File // nil: it is only read
	noLocks     bool     // the file system has no locks
	job         saved.Job
	startedHere bool          // by this mpiexec
	resumedFrom *savedJobFile // the one that it was resumed from, if that is another
}

// savedJobError is what is said of FILE when it cannot be had (T18).
func savedJobError(name string, err error) error {
	return &usererr.Error{Text: fmt.Sprintf("saved job %s: %v", name, err), Remedy: usererr.Hint(err)}
}

// lockSavedJob makes FILE ours.
func lockSavedJob(name string) (*savedJobFile, error) {
	target, err := userfile.ResolveForWriting(name)
	if err != nil {
		return nil, savedJobError(name, err)
	}
	if isWorldWritable(filepath.Dir(target), 0) {
		return nil, savedJobError(name, errors.New("its directory can be written by everybody"))
	}
	k := &savedJobFile{name: target}
	lock, err := openLock(target + ".lock")
	if err != nil {
		return nil, savedJobError(name, err)
	}
	switch err := lockFile(lock); {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		defer lock.Close()
		who, _ := io.ReadAll(io.LimitReader(lock, 300))
		return nil, savedJobError(name, fmt.Errorf("still runs (mpiexec %s)", strings.TrimSpace(string(who))))
	case err != nil:
		k.noLocks = true
	}
	k.lock = lock
	host, _ := os.Hostname()
	lock.Truncate(0)
	fmt.Fprintf(lock, "%d on %s\n", os.Getpid(), host)
	return k, nil
}

// openLock opens a file to be locked, if it is ours: what another user has locked, or written there, says nothing of our job.
func openLock(name string) (*os.File, error) {
	lock, err := userfile.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	info, missing := os.Lstat(name)
	if err == nil {
		info, missing = lock.Stat()
	}
	if missing == nil && userfile.Owner(info) != os.Geteuid() {
		lock.Close() // nil has nothing to close
		err = &usererr.Error{Text: fmt.Sprintf("%s belongs to %s", name, nsswitch.UserText(userfile.Owner(info))), Remedy: "name a file in a directory of your own"}
	}
	return lock, err
}

// release gives FILE up.
func (k *savedJobFile) release() {
	for ; k != nil; k = k.resumedFrom {
		if k.lock != nil {
			k.lock.Close()
		}
	}
}

// readSavedJob reads what FILE holds, if it is the user's alone.
func readSavedJob(name string) (saved.Job, error) {
	f, err := userfile.Open(name)
	if err != nil {
		return saved.Job{}, fmt.Errorf("--resume: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = checkPrivate(name, info)
	}
	if err != nil {
		return saved.Job{}, savedJobError(name, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, saved.MaxSize+1))
	switch {
	case err != nil:
		return saved.Job{}, savedJobError(name, err)
	case len(text) > saved.MaxSize:
		return saved.Job{}, savedJobError(name, fmt.Errorf("more than %d MiB", saved.MaxSize>>20))
	}
	return saved.Decode(name, text)
}

// checkPrivate reports why a file is not the user's own and nobody else's; nil: it is.
func checkPrivate(name string, info os.FileInfo) error {
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return errors.New("is no plain file")
	case known && int(stat.Uid) != os.Getuid():
		return errors.New("is not yours")
	case info.Mode().Perm()&0o077 != 0:
		return &usererr.Error{Text: fmt.Sprintf("is not yours alone (mode %04o)", info.Mode().Perm()), Remedy: "it says what is started in your name: look at it, then chmod 600"}
	case isWorldWritable(name, 0):
		return errors.New("can be replaced by everybody, as a directory above it can be written")
	}
	return nil
}

// readSavedJob reads the job that a line of --resume means, and has the line say how hosts are reached as that job
// was told.
func (c *invocation) readSavedJob() error {
	name, j := c.line.Job.Resume, c.line.Job
	if startsRanks(j) {
		kept, err := lockSavedJob(name)
		if err != nil {
			return err
		}
		c.saved = kept
	} else {
		c.saved = &savedJobFile{name: name}
	}
	was, err := readSavedJob(name)
	if err != nil {
		return err
	}
	if err := was.CheckResumable(j.Again); err != nil {
		return savedJobError(name, err)
	}
	if err := request.CheckChanges(c.line, *was.Request); err != nil {
		return err
	}
	old, err := option.Mpiexec(signalNumber).Parse(append(slices.Clone(was.TransportOptions), "--", was.Request.Apps[0].Argv[0]), option.Sources{})
	if err != nil {
		return savedJobError(name, fmt.Errorf("reach: %w", err))
	}
	c.line = c.line.WithSaved(old)
	c.saved.job = was
	return nil
}

// resumedRequest is the request of the job that was taken up.
func (c *invocation) resumedRequest() (job.Request, []job.Note, error) {
	start := c.saved.job.Resume(time.Now())
	req, notes, err := c.inputs.ResumedRequest(start.Request, c.line)
	if err != nil {
		return req, notes, err
	}
	c.env.PastAttempts, c.env.LeftoverNodes = start.Past, start.MaybeAlive
	for _, def := range start.Request.Nodes {
		if !slices.Contains(start.MaybeAlive, def.Name) {
			continue
		}
		if def.Local && c.saved.job.Host != c.inputs.Local.Names[0] && req.Restart.MaxFence > 0 {
			return req, notes, savedJobError(c.saved.name, &usererr.Error{Text: fmt.Sprintf("ranks of it ran on %s itself, where alone it can be seen whether they live", c.saved.job.Host),
				Remedy: "resume it there; or add --restart-fence no if nothing of it is left"})
		}
		if !slices.ContainsFunc(req.Nodes, def.IsSameNode) {
			def.Tier, def.ExcludedWhy = 0, ""
			c.env.FormerNodes = append(c.env.FormerNodes, def)
		}
	}
	return req, notes, nil
}

// openSavedFiles opens the files that a saved job brings along.
func (c *invocation) openSavedFiles() (*stagedFileSet, error) {
	h := &stagedFileSet{}
	var faults []error
	for _, p := range c.req.StagedFiles {
		faults = append(faults, h.addFile(p.Path, ""))
	}
	if err := errors.Join(faults...); err != nil {
		h.closeAll()
		return nil, err
	}
	c.req.StagedFiles, c.env.FileContents = h.staged, h.contents
	return h, nil
}

// startSaving has the job written to its file as it goes on, and returns who does so at the end (SV-19).
func (c *invocation) startSaving(ctx context.Context) (over func(job.Result, error), err error) {
	if c.saved == nil && c.line.Job.SaveJob == "" {
		return func(job.Result, error) {}, nil
	}
	fresh := saved.New(c.portableRequest(), c.env.PastAttempts)
	if name := c.line.Job.SaveJob; c.saved == nil || name != "" && name != c.line.Job.Resume {
		other, err := lockSavedJob(name)
		if err != nil {
			return nil, err
		}
		if c.saved != nil { // what it was resumed from stays as it is, and ours until we leave
			fresh = fresh.WithUnknownFields(c.saved.job)
		}
		other.resumedFrom, c.saved = c.saved, other
	} else {
		fresh = fresh.WithUnknownFields(c.saved.job)
	}
	fresh.Argv, fresh.Dir, fresh.Host, fresh.PID = c.args, c.inputs.Local.Dir, c.inputs.Local.Names[0], os.Getpid()
	fresh.TransportOptions = c.line.OptionWords(option.TransportOptions)
	if c.saved.noLocks {
		if err := c.checkUnclaimed(ctx); err != nil {
			return nil, err
		}
	}
	k := c.saved
	if k.job = fresh; len(c.env.PastAttempts) == 0 {
		if err := k.replace(); err != nil {
			return nil, fmt.Errorf("--save-job: %w", err)
		}
	}
	c.env.AttemptBegan = func(past []job.Attempt, now job.Attempt) {
		k.job, k.startedHere = k.job.WithRunning(past, now), true
		if err := k.replace(); err != nil {
			c.sys.newMessagePrinter(c.env.Err, c.line.Job).printError(fmt.Errorf("--save-job: %w", err))
		}
	}
	return func(result job.Result, err error) {
		if !k.startedHere && len(c.env.PastAttempts) > 0 {
			return // what may be left of the last attempt still is
		}
		k.job = k.job.WithEnded(result.Attempts, exitCode(result.Code, err, c.ownErrorCode), time.Now())
		if err := k.replace(); err != nil {
			c.sys.newMessagePrinter(c.sys.Err, c.line.Job).printError(fmt.Errorf("--save-job: %w", err))
		}
	}, nil
}

// portableRequest is the request as another mpiexec can use it: files do not depend on where that runs.
func (c *invocation) portableRequest() job.Request {
	req, dir := c.req, c.inputs.Local.Dir
	literal := strings.ReplaceAll(dir, "%", "%%")
	for _, file := range []*string{&req.Streams.Out.File, &req.Streams.Err.File} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(literal, *file)
		}
	}
	if from := req.Streams.StdinFile; from != "" && !filepath.IsAbs(from) {
		req.Streams.StdinFile = filepath.Join(dir, from)
	}
	return req
}

// checkUnclaimed sees in the ledgers of its nodes that a job does not run, where no lock can tell.
func (c *invocation) checkUnclaimed(ctx context.Context) error {
	req := c.req
	req.SkipUnreachable, req.Queue.Required = true, false
	pages, err := reserve.Ledgers(ctx, req, c.env.Env)
	if err != nil {
		return err
	}
	if node := claimedNode(pages, req.Job); node != "" {
		return savedJobError(c.saved.name, fmt.Errorf("still runs (on %s)", node))
	}
	return nil
}

// claimedNode is a node on which a job of our user holds something; empty: there is none. What others claim under its ID is another job.
func claimedNode(pages []job.LedgerListing, id job.ID) string {
	for _, p := range pages {
		if slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return c.Job == id && c.UID == p.ReaderUID }) {
			return p.Node
		}
	}
	return ""
}

// replace puts the job into the place of what FILE holds, for good.
func (k *savedJobFile) replace() error {
	dir := filepath.Dir(k.name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(k.name)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it has the other name by then
	if _, err = f.Write(k.job.Encode()); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), k.name)
	}
	if folder, opened := os.Open(dir); err == nil && opened == nil {
		folder.Sync() // not every file system can
		folder.Close()
	}
	return err
}

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
This file saves a job so that another mpiexec can resume it (--save-job, --resume; survive.md 6).

	FILE.lock   locked by the mpiexec that writes FILE, as long as it runs; contains its process ID and host
	FILE        replaced before the job is planned, with each attempt, and at the end

FILE says which programs are started (rule TRUST-27). So only its owner may read, write or replace FILE and FILE.lock.
*/

// A savedJobFile is the file that contains a saved job. While it is locked, no other mpiexec writes to it.
type savedJobFile struct {
	name        string
	lock        *os.File // nil: the file is only read
	noLocks     bool     // the file system has no locks
	job         saved.Job
	startedHere bool          // this mpiexec has started an attempt
	resumedFrom *savedJobFile // the file that the job was resumed from, if it is another one
}

// savedJobError returns an error which says that the file of a saved job cannot be used.
func savedJobError(name string, err error) error {
	return &usererr.Error{Text: fmt.Sprintf("saved job %s: %v", name, err), Remedy: usererr.Hint(err)}
}

// lockSavedJob locks the file of a saved job for this process. If the file system has no locks, it sets
// noLocks.
func lockSavedJob(name string) (*savedJobFile, error) {
	target, err := userfile.ResolveForWriting(name)
	if err != nil {
		return nil, savedJobError(name, err)
	}
	if isWorldWritable(filepath.Dir(target), 0) {
		return nil, savedJobError(name, errors.New("the directory of the file is writable by every user"))
	}
	k := &savedJobFile{name: target}
	lock, err := openLock(target + ".lock")
	if err != nil {
		return nil, savedJobError(name, err)
	}
	switch err := lockFile(lock); {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		defer lock.Close()
		holder, _ := io.ReadAll(io.LimitReader(lock, 300))
		return nil, savedJobError(name, fmt.Errorf("the job is still running (process ID of mpiexec: %s)", strings.TrimSpace(string(holder))))
	case err != nil:
		k.noLocks = true
	}
	k.lock = lock
	host, _ := os.Hostname()
	lock.Truncate(0)
	fmt.Fprintf(lock, "%d on %s\n", os.Getpid(), host)
	return k, nil
}

// openLock opens or creates a lock file. It returns an error if the file belongs to another user, because that user
// could hold the lock forever.
func openLock(name string) (*os.File, error) {
	lock, err := userfile.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	info, missing := os.Lstat(name)
	if err == nil {
		info, missing = lock.Stat()
	}
	if missing == nil && userfile.Owner(info) != os.Geteuid() {
		lock.Close() // does nothing if lock is nil
		err = &usererr.Error{Text: fmt.Sprintf("%s belongs to %s", name, nsswitch.UserText(userfile.Owner(info))), Remedy: "choose a file in a directory of your own"}
	}
	return lock, err
}

// release unlocks the file. If the job was resumed from another file, it unlocks that file, too.
func (k *savedJobFile) release() {
	for ; k != nil; k = k.resumedFrom {
		if k.lock != nil {
			k.lock.Close()
		}
	}
}

// readSavedJob reads a saved job. It returns an error if users other than the owner can read or write the
// file.
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
		return saved.Job{}, savedJobError(name, fmt.Errorf("the file is larger than %d MiB", saved.MaxSize>>20))
	}
	return saved.Decode(name, text)
}

// checkPrivate returns nil if info describes a regular file of this user that no other user can read, write
// or replace. Otherwise it returns an error.
func checkPrivate(name string, info os.FileInfo) error {
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return errors.New("the file is not a regular file")
	case known && int(stat.Uid) != os.Getuid():
		return errors.New("the file belongs to another user")
	case info.Mode().Perm()&0o077 != 0:
		return &usererr.Error{Text: fmt.Sprintf("other users can access the file (mode %04o)", info.Mode().Perm()), Remedy: "the file contains programs that would run as you: check its contents, then run chmod 600"}
	case isWorldWritable(name, 0):
		return errors.New("every user can replace the file, because a directory above it is writable")
	}
	return nil
}

// readSavedJob reads the saved job that --resume names. It adds the saved options about how to reach hosts to
// the command line.
func (c *invocation) readSavedJob() error {
	name, j := c.line.Job.Resume, c.line.Job
	if startsRanks(c.line) {
		locked, err := lockSavedJob(name)
		if err != nil {
			return err
		}
		c.saved = locked
	} else {
		c.saved = &savedJobFile{name: name}
	}
	before, err := readSavedJob(name)
	if err != nil {
		return err
	}
	if err := before.CheckResumable(j.Again); err != nil {
		return savedJobError(name, err)
	}
	if err := request.CheckChanges(c.line, *before.Request); err != nil {
		return err
	}
	words := slices.Concat(before.TransportOptions, before.FeatureOptions, []string{"--", before.Request.Apps[0].Argv[0]})
	old, err := option.Mpiexec(signalNumber).Parse(words, option.Sources{})
	if err != nil {
		return savedJobError(name, &usererr.Error{Text: fmt.Sprintf("mpiexec does not accept the saved options: %v", err), Remedy: "resume the job with the mpiexec that saved it, or start the job again"})
	}
	c.line = c.line.WithSaved(old)
	c.saved.job = before
	return nil
}

// resumedRequest returns the request of the saved job with the changes of the command line. It stores the past attempts
// in c.env.
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
			return req, notes, savedJobError(c.saved.name, &usererr.Error{Text: fmt.Sprintf("some ranks of the job ran on %s, and mpiexec can check only on that host whether they are still running", c.saved.job.Host),
				Remedy: "resume the job on that host, or add --restart-fence no if no process of the job is left"})
		}
		if !slices.ContainsFunc(req.Nodes, def.IsSameNode) {
			def.Tier, def.ExcludedWhy = 0, ""
			c.env.FormerNodes = append(c.env.FormerNodes, def)
		}
	}
	return req, notes, nil
}

// startSaving writes the job to its file, now and whenever an attempt (one run of all ranks) begins. The caller must
// call ended with the result of the run. ended writes the file one last time (rule SV-19).
func (c *invocation) startSaving(ctx context.Context) (ended func(job.Result, error), err error) {
	if c.saved == nil && c.line.Job.SaveJob == "" {
		return func(job.Result, error) {}, nil
	}
	fresh := saved.New(c.portableRequest(), c.env.PastAttempts)
	if name := c.line.Job.SaveJob; c.saved == nil || name != "" && name != c.line.Job.Resume {
		other, err := lockSavedJob(name)
		if err != nil {
			return nil, err
		}
		if c.saved != nil { // the file from which the job was resumed stays unchanged, and locked until mpiexec exits
			fresh = fresh.WithUnknownFields(c.saved.job)
		}
		other.resumedFrom, c.saved = c.saved, other
	} else {
		fresh = fresh.WithUnknownFields(c.saved.job)
	}
	fresh.Argv, fresh.Dir, fresh.Host, fresh.PID = c.args, c.inputs.Local.Dir, c.inputs.Local.Names[0], os.Getpid()
	fresh.TransportOptions, fresh.FeatureOptions = c.line.OptionWords((*option.Option).IsTransport), c.line.OptionWords((*option.Option).IsSaved)
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
			return // ranks of the last attempt may still run, as the file says
		}
		k.job = k.job.WithEnded(result.Attempts, exitCode(result.Code, err, c.ownErrorCode), time.Now())
		if err := k.replace(); err != nil {
			c.sys.newMessagePrinter(c.sys.Err, c.line.Job).printError(fmt.Errorf("--save-job: %w", err))
		}
	}, nil
}

// portableRequest returns the request with absolute paths, so that an mpiexec in another directory can use it.
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

// checkUnclaimed returns an error if nodes still have claims of the job, which means that it still runs. It
// is used on file systems that have no locks.
func (c *invocation) checkUnclaimed(ctx context.Context) error {
	req := c.req
	req.SkipUnreachable, req.Queue.Required = true, false
	pages, err := reserve.Ledgers(ctx, req, c.env.Env)
	if err != nil {
		return err
	}
	if node := claimedNode(pages, req.Job); node != "" {
		return savedJobError(c.saved.name, fmt.Errorf("the job is still running (on %s)", node))
	}
	return nil
}

// claimedNode returns a node on which this user's job has a claim, or "". It ignores claims in the name of other users,
// even if the job ID is the same, because these belong to other jobs.
func claimedNode(pages []job.LedgerListing, id job.ID) string {
	for _, p := range pages {
		if slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return c.Job == id && c.UID == p.ReaderUID }) {
			return p.Node
		}
	}
	return ""
}

// replace writes the job to a temporary file, and renames that file to the name of the saved job's file.
func (k *savedJobFile) replace() error {
	dir := filepath.Dir(k.name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(k.name)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // does nothing once the file is renamed
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

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
	"remshell/fault"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/nsswitch"
	"remshell/userfile"
)

/*
This file keeps a job for another mpiexec (--save-job), and takes one up (--resume; survive.md 6).

	FILE.lock   locked while an mpiexec lives that writes FILE; says which one
	FILE        a new one takes its place: before the job has its plan, with each attempt, at the end

Both are code (TRUST-27): nobody but their owner may read or write them, or put others in their place.
*/

// A keptJob is the file of a saved job, which we alone write.
type keptJob struct {
	name  string
	lock  *os.File // nil: it is only read
	blind bool     // the file system has no locks
	now   saved.Job
	begun bool     // by this mpiexec
	from  *keptJob // the one that it was resumed from, if that is another
}

// refusedJob is what is said of FILE when it cannot be had (T18).
func refusedJob(name string, err error) error {
	return &fault.Error{Text: fmt.Sprintf("saved job %s: %v", name, err), Remedy: fault.Hint(err)}
}

// lockJob makes FILE ours.
func lockJob(name string) (*keptJob, error) {
	target, err := userfile.Target(name)
	if err != nil {
		return nil, refusedJob(name, err)
	}
	if openToAll(filepath.Dir(target), 0) {
		return nil, refusedJob(name, errors.New("its directory can be written by everybody"))
	}
	k := &keptJob{name: target}
	lock, err := openLock(target + ".lock")
	if err != nil {
		return nil, refusedJob(name, err)
	}
	switch err := lockFile(lock); {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		defer lock.Close()
		who, _ := io.ReadAll(io.LimitReader(lock, 300))
		return nil, refusedJob(name, fmt.Errorf("still runs (mpiexec %s)", strings.TrimSpace(string(who))))
	case err != nil:
		k.blind = true
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
		err = &fault.Error{Text: fmt.Sprintf("%s belongs to %s", name, nsswitch.User(userfile.Owner(info))), Remedy: "name a file in a directory of your own"}
	}
	return lock, err
}

// close gives FILE up.
func (k *keptJob) close() {
	for ; k != nil; k = k.from {
		if k.lock != nil {
			k.lock.Close()
		}
	}
}

// readJob reads what FILE holds, if it is the user's alone.
func readJob(name string) (saved.Job, error) {
	f, err := userfile.Open(name)
	if err != nil {
		return saved.Job{}, fmt.Errorf("--resume: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = alone(name, info)
	}
	if err != nil {
		return saved.Job{}, refusedJob(name, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, saved.MaxSize+1))
	switch {
	case err != nil:
		return saved.Job{}, refusedJob(name, err)
	case len(text) > saved.MaxSize:
		return saved.Job{}, refusedJob(name, fmt.Errorf("more than %d MiB", saved.MaxSize>>20))
	}
	return saved.Read(name, text)
}

// alone reports why a file is not the user's own and nobody else's; nil: it is.
func alone(name string, info os.FileInfo) error {
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return errors.New("is no plain file")
	case known && int(stat.Uid) != os.Getuid():
		return errors.New("is not yours")
	case info.Mode().Perm()&0o077 != 0:
		return &fault.Error{Text: fmt.Sprintf("is not yours alone (mode %04o)", info.Mode().Perm()), Remedy: "it says what is started in your name: look at it, then chmod 600"}
	case openToAll(name, 0):
		return errors.New("can be replaced by everybody, as a directory above it can be written")
	}
	return nil
}

// takeUp reads the job that a line of --resume means, and has the line say how hosts are reached as that job
// was told.
func (c *call) takeUp() error {
	name, j := c.line.Job.Resume, c.line.Job
	if starts(j) {
		kept, err := lockJob(name)
		if err != nil {
			return err
		}
		c.kept = kept
	} else {
		c.kept = &keptJob{name: name}
	}
	was, err := readJob(name)
	if err != nil {
		return err
	}
	if err := was.Refused(j.Again); err != nil {
		return refusedJob(name, err)
	}
	if err := request.Changeable(c.line, *was.Request); err != nil {
		return err
	}
	old, err := option.Mpiexec(signalNumber).Parse(append(slices.Clone(was.Reach), "--", was.Request.Apps[0].Argv[0]), option.Sources{})
	if err != nil {
		return refusedJob(name, fmt.Errorf("reach: %w", err))
	}
	c.line = c.line.Over(old)
	c.kept.now = was
	return nil
}

// resumed is the request of the job that was taken up.
func (c *call) resumed() (job.Request, []job.Note, error) {
	start := c.kept.now.Next(time.Now())
	req, notes, err := c.world.Resumed(start.Request, c.line)
	if err != nil {
		return req, notes, err
	}
	c.env.Past, c.env.Remains = start.Past, start.Remains
	for _, def := range start.Request.Nodes {
		if !slices.Contains(start.Remains, def.Name) {
			continue
		}
		if def.Local && c.kept.now.Host != c.world.Local.Names[0] && req.Restart.Fence > 0 {
			return req, notes, refusedJob(c.kept.name, &fault.Error{Text: fmt.Sprintf("ranks of it ran on %s itself, where alone it can be seen whether they live", c.kept.now.Host),
				Remedy: "resume it there; or add --restart-fence no if nothing of it is left"})
		}
		if !slices.ContainsFunc(req.Nodes, def.Same) {
			def.Tier, def.Out = 0, ""
			c.env.Former = append(c.env.Former, def)
		}
	}
	return req, notes, nil
}

// reship opens the files that a saved job brings along.
func (c *call) reship() (*hold, error) {
	h := &hold{}
	var faults []error
	for _, p := range c.req.Parcels {
		faults = append(faults, h.add(p.Path, ""))
	}
	if err := errors.Join(faults...); err != nil {
		h.close()
		return nil, err
	}
	c.req.Parcels, c.env.Cargo = h.parcels, h.cargo
	return h, nil
}

// keep has the job written to its file as it goes on, and returns who does so at the end (SV-19).
func (c *call) keep(ctx context.Context) (over func(job.Result, error), err error) {
	if c.kept == nil && c.line.Job.SaveJob == "" {
		return func(job.Result, error) {}, nil
	}
	fresh := saved.New(c.portable(), c.env.Past)
	if name := c.line.Job.SaveJob; c.kept == nil || name != "" && name != c.line.Job.Resume {
		other, err := lockJob(name)
		if err != nil {
			return nil, err
		}
		if c.kept != nil { // what it was resumed from stays as it is, and ours until we leave
			fresh = fresh.With(c.kept.now)
		}
		other.from, c.kept = c.kept, other
	} else {
		fresh = fresh.With(c.kept.now)
	}
	fresh.Argv, fresh.Dir, fresh.Host, fresh.PID = c.args, c.world.Local.Dir, c.world.Local.Names[0], os.Getpid()
	fresh.Reach = c.line.Words(option.Reaching)
	if c.kept.blind {
		if err := c.unclaimed(ctx); err != nil {
			return nil, err
		}
	}
	k := c.kept
	if k.now = fresh; len(c.env.Past) == 0 {
		if err := k.write(); err != nil {
			return nil, fmt.Errorf("--save-job: %w", err)
		}
	}
	c.env.Began = func(past []job.Attempt, now job.Attempt) {
		k.now, k.begun = k.now.Begun(past, now), true
		if err := k.write(); err != nil {
			c.sys.screen(c.env.Err, c.line.Job).report(fmt.Errorf("--save-job: %w", err))
		}
	}
	return func(result job.Result, err error) {
		if !k.begun && len(c.env.Past) > 0 {
			return // what may be left of the last attempt still is
		}
		k.now = k.now.Over(result.Attempts, exitCode(result.Code, err, c.ours), time.Now())
		if err := k.write(); err != nil {
			c.sys.screen(c.sys.Err, c.line.Job).report(fmt.Errorf("--save-job: %w", err))
		}
	}, nil
}

// portable is the request as another mpiexec can use it: files do not depend on where that runs.
func (c *call) portable() job.Request {
	req, dir := c.req, c.world.Local.Dir
	literal := strings.ReplaceAll(dir, "%", "%%")
	for _, file := range []*string{&req.Streams.Out.File, &req.Streams.Err.File} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(literal, *file)
		}
	}
	if from := req.Streams.From; from != "" && !filepath.IsAbs(from) {
		req.Streams.From = filepath.Join(dir, from)
	}
	return req
}

// unclaimed sees in the ledgers of its nodes that a job does not run, where no lock can tell.
func (c *call) unclaimed(ctx context.Context) error {
	req := c.req
	req.Skip, req.Queue.Required = true, false
	pages, err := reserve.Pages(ctx, req, c.env.Env)
	if err != nil {
		return err
	}
	if node := claimedOn(pages, req.Job); node != "" {
		return refusedJob(c.kept.name, fmt.Errorf("still runs (on %s)", node))
	}
	return nil
}

// claimedOn is a node on which a job of our user holds something; empty: there is none. What others claim under its ID is another job.
func claimedOn(pages []job.Page, id job.ID) string {
	for _, p := range pages {
		if slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return c.Job == id && c.UID == p.UID }) {
			return p.Node
		}
	}
	return ""
}

// write puts the job into the place of what FILE holds, for good.
func (k *keptJob) write() error {
	dir := filepath.Dir(k.name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(k.name)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it has the other name by then
	if _, err = f.Write(k.now.Text()); err == nil {
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

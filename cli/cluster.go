package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/config"
	"remshell/job"
	"remshell/nsswitch"
	"remshell/show"
)

// cluster reads the cluster file: the one that was named, else the user's, else the
// site's; nil if there is none.
func cluster(j option.Job, getenv func(string) string, read func(string) (string, error), trust func(string) error) (*config.Cluster, error) {
	load := func(file, text string) (*config.Cluster, error) {
		if err := trust(file); err != nil { // it is code (TRUST-27)
			return nil, option.Untrusted(err, "what is in it", " with --cluster")
		}
		return config.Load(file, text, accounts())
	}
	for _, named := range []struct{ by, file string }{
		{"--cluster", j.Cluster}, {"MPIEXEC_CLUSTER", getenv("MPIEXEC_CLUSTER")},
	} {
		if named.file == "" {
			continue
		}
		text, err := read(named.file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", named.by, err)
		}
		return load(named.file, text)
	}
	places := []string{config.ClusterFile}
	if home := getenv("HOME"); home != "" {
		places = append([]string{filepath.Join(home, ".config/remshell/cluster.toml")}, places...)
	}
	for _, file := range places {
		text, err := read(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // HOME=/dev/null
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cluster file: %w", err)
		}
		return load(file, text)
	}
	return nil, nil
}

// readCluster reads the cluster file from the disk.
func readCluster(j option.Job, sys System) (*config.Cluster, error) {
	files := newUserFiles(sys)
	return cluster(j, sys.getenv, request.Texts(files.open), files.trust)
}

// directoryTime is how long a directory service may take, in all, to find users and groups that a file names, or our own account.
const directoryTime = 5 * time.Second

// accounts knows the users and groups of this machine, for one reading of a file.
func accounts() config.IDs {
	user, group := nsswitch.Finders(directoryTime)
	return config.IDs{User: user, Group: group}
}

// setsInfo is what --info tells of node sets, of which the cluster file may say as much as options do
// (which-hosts.md 15). What cannot be used keeps nobody from the rest of --info.
func setsInfo(line option.Line, sys System) string {
	c := call{line: line, sys: sys}
	_, err := c.locate()
	if err == nil {
		c.req.Set, err = c.world.Sets(c.line)
	}
	text := show.Sets(c.req.Set)
	if err != nil {
		text = show.CleanLines(err.Error())
	}
	if text == "" {
		return ""
	}
	return "\nnode sets:\n" + strings.TrimSuffix(text, "\n") + "\n"
}

// While a request waits it stays what it was: flags, variables and host files are read
// once. Only the cluster file is looked at again, before each attempt (placement.md 6.1,
// 6.5).

// reread returns what reserve.Env.Reread wants; nil for a request that does not wait, or
// knows no cluster file.
func reread(line option.Line, sys System, w request.World, starter request.Starter, first job.Request) func() (job.Request, bool, error) {
	if w.Cluster == nil || !first.Wait {
		return nil
	}
	read := modified(w.Cluster.File)
	return func() (job.Request, bool, error) {
		now := modified(w.Cluster.File)
		if now.Equal(read) {
			return first, false, nil
		}
		read = now
		site, err := readCluster(line.Job, sys)
		if err != nil {
			return first, false, err
		}
		w.Cluster = site
		req, _, err := request.Make(line, w)
		if err != nil {
			return first, false, err
		}
		starter.Reaches(&req)
		req.Job, req.Soft, req.Streams, req.Parcels = first.Job, first.Soft, first.Streams, first.Parcels
		req.Ends.Ours, req.Traits = first.Ends.Ours, req.Traits || first.Traits
		for i := range req.Apps {
			req.Apps[i].Staged = first.Apps[i].Staged
		}
		return req, true, nil
	}
}

// modified is when a file was changed; the zero time if it is not there.
func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

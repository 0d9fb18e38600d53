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
	"remshell/format"
	"remshell/job"
	"remshell/nsswitch"
)

// findCluster reads the cluster file. This is the file that --cluster or MPIEXEC_CLUSTER names, or else the user's
// file, or else the site's file. If there is no cluster file, findCluster returns nil.
func findCluster(j option.JobOptions, getenv func(string) string, read func(string) (string, error), checkTrust func(string) error) (*config.Cluster, error) {
	load := func(file, text string) (*config.Cluster, error) {
		if err := checkTrust(file); err != nil { // the file can name programs to run (TRUST-27)
			return nil, option.UntrustedError(err, "", "--cluster")
		}
		return config.Load(file, text, userIDs())
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

// readCluster reads the cluster file from the disk of this machine.
func readCluster(j option.JobOptions, sys System) (*config.Cluster, error) {
	files := newUserFiles(sys)
	return findCluster(j, sys.getenv, request.ReadTexts(files.open), files.checkTrust)
}

// directoryTime limits how long mpiexec waits for a directory service. One such limit applies to the look-up of the
// user's own account, and another to all users and groups that one file names, taken together.
const directoryTime = 5 * time.Second

// userIDs returns functions that look up users and groups on this machine. Each file that is read needs its own
// functions, because directoryTime limits all their look-ups together.
func userIDs() config.IDs {
	user, group := nsswitch.IDFinders(directoryTime)
	return config.IDs{User: user, Group: group}
}

// nodeSetInfo returns the part of the output of --info about the node sets that options and the cluster file request
// (which-hosts.md 15). An error is returned as text, so that the rest of --info is still printed.
func nodeSetInfo(line option.Line, sys System) string {
	c := invocation{line: line, sys: sys}
	_, err := c.locateHosts()
	if err == nil {
		c.req.NodeSet, err = c.inputs.NodeSets(c.line)
	}
	text := format.NodeSetRequest(c.req.NodeSet)
	if err != nil {
		text = format.EscapeLines(err.Error())
	}
	if text == "" {
		return ""
	}
	return "\nnode sets:\n" + strings.TrimSuffix(text, "\n") + "\n"
}

// newReread returns a function for reserve.Env.RereadRequest, or nil if the request does not wait or has no cluster
// file. While a request waits, this function reads the cluster file again before each attempt to start, if the file
// has changed (placement.md 6.1, 6.5). It does not read options, variables and host files again.
func newReread(line option.Line, sys System, w request.Inputs, starter request.Starter, first job.Request) func() (job.Request, bool, error) {
	if w.Cluster == nil || !first.Wait {
		return nil
	}
	read := modTime(w.Cluster.File)
	return func() (job.Request, bool, error) {
		now := modTime(w.Cluster.File)
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
		starter.Use(&req)
		req.Job, req.SoftLimits, req.Priority = first.Job, first.SoftLimits, first.Priority
		req.Streams, req.StagedFiles = first.Streams, first.StagedFiles
		req.Checkpoint, req.GlobalEnv = first.Checkpoint, first.GlobalEnv
		req.EndPolicy.ErrorCode, req.WantAttributes = first.EndPolicy.ErrorCode, req.WantAttributes || first.WantAttributes
		for i := range req.Apps {
			req.Apps[i].StagedFile = first.Apps[i].StagedFile
		}
		return req, true, nil
	}
}

// modTime returns the time at which a file was last modified, or the zero time if that is unknown.
func modTime(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

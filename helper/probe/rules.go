//go:build linux

package probe

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"remshell/config"
	"remshell/job"
	"remshell/limits"
)

// AdminFiles are the names of the files in which a node's administrator sets rules. A file whose name is
// empty is not read.
type AdminFiles struct {
	Node   string // the users and programs that are allowed
	State  string // run-time settings
	Limits string // the limits of a job
}

// SystemFiles are the administrator's files at their usual paths on this node.
var SystemFiles = AdminFiles{Node: config.NodeFile, State: config.StateFile, Limits: config.LimitsFile}

// ReadRules reads the rules for jobs from the files Node and State. If a file does not exist, it contains no
// rules. If a file does not belong to root or is faulty, ReadRules returns an error, and no rank may run on
// this node.
func (f AdminFiles) ReadRules() (rules config.RuleSet, err error) {
	if f.Node != "" {
		text, err := readRootFile(f.Node)
		if err != nil {
			return nil, err
		}
		if text != nil {
			r, err := config.LoadAdminRules(f.Node, *text, UserIDs())
			if err != nil {
				return nil, err
			}
			rules = append(rules, r)
		}
	}
	if f.State != "" {
		s, err := ReadState(f.State)
		if err != nil {
			return nil, err
		}
		rules = append(rules, config.StateRules(f.State, s, UserIDs()))
	}
	return rules, nil
}

// ReadLimits returns the limits for jobs in a file of this node's administrator. If the file does not exist, there are
// no limits. If the file does not belong to root or is faulty, ReadLimits returns an error.
func ReadLimits(file string) (limits.Map, error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return nil, err
	}
	return config.LoadLimits(file, *text)
}

// ReadAdministrators returns the users who may control jobs of other users. It reads them from this node's cluster
// file, which must belong to root (rule SV-25). Users who are unknown on this node are left out.
func ReadAdministrators(file string) (uids []int, err error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return nil, err
	}
	ids := UserIDs()
	c, err := config.Load(file, *text, ids)
	if err != nil {
		return nil, err
	}
	for _, name := range c.Administrators {
		uid, err := strconv.Atoi(name)
		if err != nil {
			uid, err = ids.User(name)
		}
		if err == nil {
			uids = append(uids, uid)
		}
	}
	return uids, nil
}

// GangTerms reads from the cluster file the terms on which gangs (jobs that share CPUs in time slices) take turns on
// this node. If the file contains no such terms, or is not valid, terms is job.DefaultGangTerms. slice is the length of
// a slice that root has set at run time; if it is set, it is used instead of terms.Slice. Both files must belong to
// root.
func GangTerms(clusterFile, stateFile string) (terms job.GangTerms, slice job.SliceSetting, err error) {
	terms = job.DefaultGangTerms
	state, err := ReadState(stateFile)
	text, failed := readRootFile(clusterFile)
	if text != nil && failed == nil {
		var c *config.Cluster
		if c, failed = config.Load(clusterFile, *text, UserIDs()); failed == nil {
			terms = c.Gang
		}
	}
	return terms, state.Slice, cmp.Or(failed, err)
}

// maxFileBytes is the maximum size, in bytes, of an administrator's file.
const maxFileBytes = 1 << 20

// readRootFile reads a file that only root can have written. It returns nil if the file does not exist, and
// an error if another user can write to it.
func readRootFile(file string) (*string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	return readIfRoots(f, err, file, maxFileBytes)
}

// readIfRoots reads f, under the same conditions as readRootFile, and closes it. err is the error of opening f. name is
// the file's name for errors. It returns an error if the file contains more than limit bytes.
func readIfRoots(f *os.File, err error, name string, limit int) (*string, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s: the file is not a regular file", name)
	case st.Uid != 0:
		return nil, fmt.Errorf("%s: the file belongs to uid %d, but must belong to root", name, st.Uid)
	case st.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s: mode %04o: users other than root may write to it", name, st.Mode&0o7777)
	case st.Size > int64(limit):
		return nil, fmt.Errorf("%s: the file has %d bytes, but at most %d are allowed", name, st.Size, limit)
	}
	content, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	text := string(content)
	return &text, err
}

// maxRanks stands for an unlimited number of ranks. It is the largest number that a message can contain.
const maxRanks = 1e6

// Rules returns the rules that this node's administrator has set for the current user.
func (f AdminFiles) Rules() job.AdminRules {
	const unclear = "the host does not allow jobs, because mpiexec cannot read the rules of its administrator: "
	result := job.AdminRules{MaxRanks: -1}
	rules, err := f.ReadRules()
	if err == nil && f.Limits != "" {
		_, err = ReadLimits(f.Limits)
	}
	if err != nil {
		result.Forbidden, result.FileFault = unclear+err.Error(), true
	} else {
		groups, _ := os.Getgroups()
		result.Forbidden, result.Drained = rules.ForbidReason(os.Geteuid(), append(groups, os.Getegid()))
		result.MaxRanks = min(rules.SmallerMaxProcs(-1), maxRanks)
	}
	warnings := rules.Warnings()
	for _, w := range warnings[:min(len(warnings), job.MaxWarnings)] {
		result.Warnings = append(result.Warnings, w.Error())
	}
	return result
}

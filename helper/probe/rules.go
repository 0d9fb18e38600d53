//go:build linux

package probe

import (
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

// AdminFiles are the files with the rules of a node's administrator. A file with an empty name is not read.
type AdminFiles struct {
	Node   string // the users and programs that are allowed
	State  string // run-time settings
	Limits string // the limits of a job
}

// SystemFiles are the AdminFiles of this node.
var SystemFiles = AdminFiles{Node: config.NodeFile, State: config.StateFile, Limits: config.LimitsFile}

// ReadRules reads the rules for jobs in the files Node and State. A file that does not exist has no rules. It fails if
// a file does not belong to root or has an error; then no rank may run here.
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

// ReadLimits reads the limits for jobs from a file of this node's administrator, under the same conditions as AdminFiles.ReadRules.
func ReadLimits(file string) (limits.Map, error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return nil, err
	}
	return config.LoadLimits(file, *text)
}

// ReadAdministrators reads from this node's cluster file the users who may control jobs of others (rule
// SV-25). The file must belong to root. Users who are unknown on this node are left out.
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

// GangTerms reads from this node's cluster file how gangs take turns here. Without a file that says so, or with an error,
// the result is job.DefaultGangTerms. The file must belong to root.
func GangTerms(file string) (job.GangTerms, error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return job.DefaultGangTerms, err
	}
	c, err := config.Load(file, *text, UserIDs())
	if err != nil {
		return job.DefaultGangTerms, err
	}
	return c.Gang, nil
}

// maxFileBytes is the largest size of an administrator's file.
const maxFileBytes = 1 << 20

// readRootFile reads a file that only root can have written. The result is nil if the file does not exist. It fails
// if another user can write it.
func readRootFile(file string) (*string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	return readIfRoots(f, err, file, maxFileBytes)
}

// readIfRoots reads and closes f, unless err is the error of opening it, under the same conditions as readRootFile.
// name is used in errors. A file of more than limit bytes is an error.
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
		return nil, fmt.Errorf("%s: is not a regular file", name)
	case st.Uid != 0:
		return nil, fmt.Errorf("%s: belongs to uid %d, must belong to root", name, st.Uid)
	case st.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s: mode %04o: others than root may write to it", name, st.Mode&0o7777)
	case st.Size > int64(limit):
		return nil, fmt.Errorf("%s: has %d bytes, more than %d", name, st.Size, limit)
	}
	content, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	text := string(content)
	return &text, err
}

// maxRanks means that the number of ranks is not limited. It is the largest number that package wire can send.
const maxRanks = 1e6

// Rules returns the rules of this node's administrator for our user.
func (f AdminFiles) Rules() job.AdminRules {
	const unclear = "runs no jobs, because the rules of its administrator cannot be used: "
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

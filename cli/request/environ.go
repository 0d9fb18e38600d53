package request

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/cli/option"
	"remshell/job"
	"remshell/usererr"
)

// isLocalVariable returns a function that reports whether a variable must not be passed on to ranks (rule
// ENV-2). Such variables are in option.PrivateVariables, or were set by another launcher that has started
// this mpiexec as one of its ranks.
func isLocalVariable(environ []string) func(assignment string) bool {
	outer := job.OuterFilter(environ)
	return func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return job.MatchesPattern(option.PrivateVariables, name) || outer(assignment)
	}
}

// baseEnv returns two parts of the ranks' environment (cli.md section 8, items 2 and 3). env contains variables of
// mpiexec's environment, and given contains the variables of -genv and --export. The variables of a host entry
// override those in env, but not those in given.
func baseEnv(environ []string, j option.JobOptions) (env job.Env, given []string, err error) {
	if j.Export.Given && j.GEnvList.Given {
		return env, nil, &usererr.Error{Text: "--export contradicts -genvlist, -genvall and -genvnone", Remedy: "use only one of them"}
	}
	list := j.GEnvList
	if j.Export.Given && !j.Export.All {
		list = option.EnvImport{Given: true}
	}
	env, err = importEnv(environ, list, true)
	if err == nil && j.HybridHosts && !list.Given {
		env.Set = slices.DeleteFunc(env.Set, func(a string) bool {
			return strings.HasPrefix(a, "PATH=") || strings.HasPrefix(a, "LD_LIBRARY_PATH=")
		})
	}
	var on job.Env
	if err == nil {
		err = assignVars(&on, environ, "--export", j.Export.Vars)
	}
	if err == nil {
		err = assignVars(&on, environ, "-genv", j.GEnv)
	}
	return env, on.Set, err
}

// loginVariables are variables that are not passed on to ranks, because every login on a node sets them by itself.
var loginVariables = []string{"HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOSTNAME", "HOST"}

// HelperEnv returns the environment of a helper on this machine. Although the helper is a child of mpiexec,
// its ranks must not see more variables than ranks on other hosts, where a login sets the environment (rule
// ENV-6). TMPDIR is passed separately, as on other hosts (rule ENV-5).
func HelperEnv(environ []string) []string {
	private := isLocalVariable(environ)
	return slices.DeleteFunc(slices.Clone(environ), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return name == "TMPDIR" || private(assignment) && !slices.Contains(loginVariables, name)
	})
}

// appEnv returns the variables of an app context. They take precedence over the variables from baseEnv (cli.md
// section 8, item 4).
func appEnv(environ []string, s option.AppContext) (job.Env, error) {
	env, err := importEnv(environ, s.EnvList, false)
	env.Set = slices.Concat(env.Set, mcaAssignments("OMPI_MCA_", s.MCA))
	if err == nil {
		err = assignVars(&env, environ, "-env", s.Env)
	}
	if err == nil {
		err = assignVars(&env, environ, "-x", s.X)
	}
	env.Unset = s.UnsetEnv
	return env, err
}

// mcaAssignments returns assignments of the environment variables in which Open MPI looks for the parameters in list
// (rule PMIX-14). The variables' names begin with prefix.
func mcaAssignments(prefix string, list []option.MCAParam) (assignments []string) {
	for _, p := range list {
		assignments = append(assignments, prefix+p.Name+"="+p.Value)
	}
	return assignments
}

// importEnv returns the variables of environ that are passed on to ranks. Without a list, it returns all variables
// that are not private or, if all is false, none. A private variable is passed on only if the list names it. With an
// empty list, the environment is minimal: it contains neither mpiexec's nor the node's variables (rule ENV-3).
func importEnv(environ []string, list option.EnvImport, all bool) (job.Env, error) {
	if !list.Given && !all {
		return job.Env{}, nil
	}
	if list.Given && len(list.Names) == 0 {
		return job.Env{Minimal: true}, nil
	}
	var env job.Env
	everything := !list.Given || slices.Contains(list.Names, "*")
	env.Minimal = !everything
	private := isLocalVariable(environ)
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		switch {
		case everything && name == "TMPDIR": // the directory may be missing on the host (ENV-5)
			env.DirVars = append(env.DirVars, assignment)
		case job.MatchesPattern(list.Names, name) && !everything || everything && !private(assignment):
			env.Set = append(env.Set, assignment)
		}
	}
	return env, nil
}

// assignVars adds the variables of an option to env. If the option gives no value for a variable, the value comes from
// environ. optionName is the name of the option, for errors.
func assignVars(env *job.Env, environ []string, optionName string, vars []option.EnvVar) error {
	for _, v := range vars {
		if !v.Inherited {
			env.Set = append(env.Set, v.Name+"="+v.Value)
			continue
		}
		found := false
		for _, assignment := range environ {
			if defined, _, _ := strings.Cut(assignment, "="); job.MatchesPattern([]string{v.Name}, defined) {
				env.Set = append(env.Set, assignment)
				found = true
			}
		}
		if !found && optionName != "-x" { // for -x package option warns
			return &usererr.Error{Text: fmt.Sprintf("%s %s: this variable is not set here", optionName, v.Name),
				Remedy: fmt.Sprintf("to set a value, write %s %s=VALUE", optionName, v.Name)}
		}
	}
	return nil
}

// addShareVariables adds variables that tell ranks about their CPUs (placement.md 7.6). If countGiven is true, the
// user has set the number of CPUs, and addShareVariables adds variables with that number. If ranks may share CPUs, it
// adds PSP_SCHED_YIELD, so that a rank that waits yields its CPU. It does not replace variables that the user or a
// host entry sets. But it may replace an assignment that equals foreign, because the batch system has set that one.
func addShareVariables(req *job.Request, app *job.App, countGiven bool, foreign string) {
	setDefault := func(name, value string) {
		set := func(assignment string) bool {
			return strings.HasPrefix(assignment, name+"=") && assignment != foreign
		}
		if !slices.ContainsFunc(req.BaseEnv.Set, set) && !slices.ContainsFunc(req.GlobalEnv, set) && !slices.ContainsFunc(app.Env.Set, set) {
			app.DefaultEnv = append(app.DefaultEnv, name+"="+value)
		}
	}
	if countGiven {
		setDefault("OMP_NUM_THREADS", strconv.Itoa(app.CPUsPerRank))
		app.Env.Set = append(app.Env.Set, "PSI_TPP="+strconv.Itoa(app.CPUsPerRank))
	}
	if req.Overbook || req.Oversubscribe {
		setDefault("PSP_SCHED_YIELD", "1")
	}
}

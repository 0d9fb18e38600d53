package pmix

import (
	"errors"
	"slices"

	"remshell/pmiserver/pmix/message"
	"remshell/pmiserver/spawn"
)

// Bounds of what a client may want started (pmix-wire.md 11).
const (
	maxSpawns   = 16      // requests of a rank that are under way
	maxPrograms = 1 << 12 // in one of them
)

// handleSpawn has programs started as a group of their own, and answers when all of its ranks run
// (PMIX-42).
func (c *client) handleSpawn(q requestInfo, r *message.Spawn) {
	request, status := spawnRequest(r)
	switch {
	case status != message.Success:
	case c.group.Spawner == nil:
		status = message.NotSupported
	case c.isEnding():
		status = message.Failed
	case c.rank.spawns.Add(1) > maxSpawns:
		c.rank.spawns.Add(-1)
		status = message.NoMemory
	}
	if status != message.Success {
		c.replyStatus(q, status)
		return
	}
	request.Group, request.Rank = c.group.Name, c.rank.number
	c.server.tasks.Go(func() {
		group, _, err := c.group.Spawner.Spawn(c.server.waitCtx, request)
		c.rank.spawns.Add(-1)
		c.replySpawned(q, group, err)
	})
}

// replySpawned answers a Spawn (PMIX-44).
func (c *client) replySpawned(q requestInfo, group string, err error) {
	switch {
	case errors.Is(err, spawn.ErrNoSlots):
		c.replyStatus(q, message.NoMemory)
	case err != nil:
		c.replyStatus(q, message.Failed)
	default:
		space := c.server.GroupFinder.Namespace(group)
		c.reply(q, message.HideSecrets(space), message.AppendSpawned(message.NewReply(q.tag), space))
	}
}

// spawnRequest is a request as whoever starts ranks has it, whichever protocol it came by.
func spawnRequest(r *message.Spawn) (spawn.Request, message.Status) {
	request := spawn.Request{PMIx: true}
	if len(r.Programs) > maxPrograms {
		return request, message.NoMemory
	}
	for _, p := range r.Programs {
		command := spawn.Command{Argv: []string{p.Command}, Count: p.Ranks, Env: p.Environment}
		if len(p.Args) > 1 { // the first one names the program again
			command.Argv = append(command.Argv, p.Args[1:]...)
		}
		if _, given := slices.Concat(r.Options, p.Options).Find("pmix.wdir"); p.Dir != "" && !given {
			command.Info = append(command.Info, spawn.Pair{Key: "wdir", Value: p.Dir})
		}
		for _, options := range []message.Options{r.Options, p.Options} {
			translateOptions(&command, options)
		}
		request.Commands = append(request.Commands, command)
	}
	if request.Problem() != "" {
		return request, message.BadParameter
	}
	return request, message.Success
}

// spawnKeys are the options that say what an info key of MPI says, too (pmix-wire.md 6.9).
var spawnKeys = map[string]string{
	"pmix.host":        "host",
	"pmix.hostfile":    "hostfile",
	"pmix.addhost":     "host",
	"pmix.addhostfile": "hostfile",
	"pmix.wdir":        "wdir",
	"pmix.mapby":       "map_by",
	"pmix.ppr":         "ppr",
	"pmix.rankby":      "rank_by",
	"pmix.bindto":      "bind_to",
}

// translateOptions adds to a command what options say of it. What nobody knows is ignored.
func translateOptions(command *spawn.Command, options message.Options) {
	for _, o := range options {
		text, isText := o.Value.Text()
		variable, isVariable := o.Value.Variable()
		switch key := spawnKeys[o.Key]; {
		case key != "" && isText:
			command.Info = append(command.Info, spawn.Pair{Key: key, Value: text})
		case isVariable && setsVariable(o.Key) && variable.Name != "":
			command.Env = append(command.Env, variable.Name+"="+variable.Value)
		}
	}
}

// setsVariable reports whether an option gives a variable its value. Those that join it to another
// value, which is not known here, are ignored.
func setsVariable(key string) bool { return key == "pmix.envar.set" || key == "pmix.envar.add" }

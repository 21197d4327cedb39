// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"weir/internal/base/safepath"
	"weir/internal/core/refusal"
)

// User is the system user that the manager runs as where systemd starts it.
const User = "weir-manager"

// Take has root make what it is about to write in a folder in one that is root's: the folder
// is made if it is missing, and one of another user has to be empty. give hands it over, with
// all that is in it then, to the user who will run the manager: the folder's owner, or User if
// it is Default and root's. Of others than root the folder has to be their own, and stays so.
func Take(dir string) (give func() error, err error) {
	refused, foreign := errors.AsType[*safepath.Error](safepath.Check(dir))
	if os.Geteuid() != 0 || !foreign || refused.Owner == 0 {
		if err := safepath.Folder(dir, 0o700); err != nil {
			return nil, err
		}
		to, err := heir(dir)
		return func() error { return handOver(dir, to) }, err
	}
	if err := safepath.Folder(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return nil, err
	}
	// No other user can exchange it in the folder above.
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	to, err := heir(dir)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Chown(0, 0), f.Chmod(0o700)); err != nil {
		return nil, err
	}
	if _, err := f.ReadDir(1); err != io.EOF { // once no other user can put something there
		return nil, errors.Join(notEmpty(dir, to.uid), f.Chmod(info.Mode().Perm()), f.Chown(to.uid, to.gid))
	}
	return func() error { return handOver(dir, to) }, nil
}

// account is a user with its group.
type account struct{ uid, gid int }

// heir returns to whom what root has made in a folder is to belong.
func heir(dir string) (to account, err error) {
	if os.Geteuid() != 0 {
		return to, nil
	}
	if to, err = ownerOf(dir); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil || to.uid != 0 || filepath.Clean(dir) != Default {
		return to, err
	}
	u, err := user.Lookup(User)
	if err != nil {
		return to, nil // on a host without it, root runs the manager
	}
	return ids(u)
}

// handOver changes the owner of root's folders and files in a folder of root's, and in the end
// its own: until then no other user is at work in it. A file with a second name stays root's.
func handOver(dir string, to account) error {
	if to.uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var list []string
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		list = append(list, path)
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(list) {
		info, err := root.Lstat(path)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != 0 || !info.IsDir() && st.Nlink != 1 {
			continue
		}
		if err := root.Lchown(path, to.uid, to.gid); err != nil {
			return err
		}
	}
	return nil
}

// CheckOwner refuses to run the manager as root in a folder of another user: what root
// writes there, that user could not read the next time.
func CheckOwner(dir string) error {
	owner, err := ownerOf(dir)
	if err != nil || os.Geteuid() != 0 || owner.uid == 0 {
		return nil // a folder that is missing is reported when it is opened
	}
	name := nameOf(owner.uid)
	return &refusal.Error{Kind: refusal.Conflict, Field: "manager.state_dir", Value: dir, Msg: fmt.Sprintf("belongs to user %s, and root runs this", name),
		Remedy: "run systemctl start weir-manager, or: " + asUser(name) + "weir manager serve"}
}

func notEmpty(dir string, owner int) error {
	name := nameOf(owner)
	return &refusal.Error{Kind: refusal.Conflict, Field: "manager.state_dir", Value: dir, Msg: fmt.Sprintf("belongs to user %s and is not empty: a cluster may be there, or what leads root elsewhere", name),
		Remedy: "choose another folder, or run this as that user: " + asUser(name) + "weir manager init"}
}

// asUser begins a command that another user than root is to run.
func asUser(name string) string { return "setpriv --reuid " + name + " --regid weir --clear-groups " }

// nameOf returns a user's name, or number.
func nameOf(uid int) string {
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return name
}

func ownerOf(dir string) (account, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return account{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return account{}, fmt.Errorf("%s: its file system does not say who owns it; choose a --state-dir on a local disk", dir)
	}
	return account{int(st.Uid), int(st.Gid)}, nil
}

func ids(u *user.User) (a account, err error) {
	if a.uid, err = strconv.Atoi(u.Uid); err == nil {
		a.gid, err = strconv.Atoi(u.Gid)
	}
	return a, err
}

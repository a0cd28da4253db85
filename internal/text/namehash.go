package text

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// NameHash returns a function that hashes names by a random key, as kind-HASH. Equal names of a kind stay equal, and an empty name
// stays empty.
func NameHash() func(kind, name string) string {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	return func(kind, name string) string {
		if name == "" {
			return ""
		}
		h := hmac.New(sha256.New, key)
		h.Write([]byte(kind + "\x00" + name))
		return kind + "-" + hex.EncodeToString(h.Sum(nil)[:8])
	}
}

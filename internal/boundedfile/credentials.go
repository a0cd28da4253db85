package boundedfile

import (
	"context"
	"time"
)

// credentialTimeout bounds the reading of a credential: a mounted file system may hang.
const credentialTimeout = 10 * time.Second

// ReadToken reads a file of at most MaxTokenBytes.
func ReadToken(name string) ([]byte, error) { return readCredential(name, MaxTokenBytes) }

// ReadCA reads a file of at most MaxCABytes.
func ReadCA(name string) ([]byte, error) { return readCredential(name, MaxCABytes) }

func readCredential(name string, maxBytes int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), credentialTimeout)
	defer cancel()
	return New(name, maxBytes).Read(ctx)
}

// ReadConfiguration reads a file of at most MaxConfigurationBytes.
func ReadConfiguration(ctx context.Context, name string) ([]byte, error) {
	return New(name, MaxConfigurationBytes).Read(ctx)
}

package cluster

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// authority issues the certificates of the API server and of its clients.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

const authorityName = "ca"

func newAuthority(dir string) (*authority, error) {
	cert, key, err := pkiutil.NewCertificateAuthority(certConfig(certutil.Config{CommonName: authorityName}))
	if err != nil {
		return nil, err
	}
	return &authority{dir: dir, cert: cert, key: key}, pkiutil.WriteCert(dir, authorityName, cert)
}

// issue writes a certificate for a server of this machine, and for a client that the API server takes for user, a member of groups.
func (a *authority) issue(name, user string, groups ...string) error {
	cert, key, err := pkiutil.NewCertAndKey(a.cert, a.key, certConfig(certutil.Config{
		CommonName: user, Organization: groups, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		AltNames: certutil.AltNames{IPs: []net.IP{net.ParseIP(loopback)}, DNSNames: []string{"localhost"}},
	}))
	if err != nil {
		return err
	}
	return pkiutil.WriteCertAndKey(a.dir, name, cert, key)
}

func (a *authority) certFile(name string) string { return filepath.Join(a.dir, name+".crt") }
func (a *authority) keyFile(name string) string  { return filepath.Join(a.dir, name+".key") }

// writeKubeconfig issues a client certificate and writes a kubeconfig with the certificates inlined, so that it can be copied.
func (a *authority) writeKubeconfig(path, server, name, user string, groups ...string) error {
	if err := a.issue(name, user, groups...); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["plimsoll"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: a.certFile(authorityName)}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: a.certFile(name), ClientKey: a.keyFile(name)}
	config.Contexts["plimsoll"] = &clientcmdapi.Context{Cluster: "plimsoll", AuthInfo: name}
	config.CurrentContext = "plimsoll"
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return fmt.Errorf("reading the certificates of %s: %w", user, err)
	}
	return clientcmd.WriteToFile(*config, path)
}

func certConfig(config certutil.Config) *pkiutil.CertConfig {
	return &pkiutil.CertConfig{Config: config, EncryptionAlgorithm: kubeadm.EncryptionAlgorithmECDSAP256}
}

package loadwatcher

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
)

// newNodeInformer returns an informer of the nodes. It avoids Kubernetes' clientset, which links the clients of all APIs.
func newNodeInformer(cluster *rest.Config) (cache.SharedIndexInformer, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(cluster)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	list := cache.NewListWatchFromClient(client, "nodes", corev1.NamespaceAll, fields.Everything())
	nodes := cache.NewSharedIndexInformer(list, &corev1.Node{}, 0, cache.Indexers{})
	// Nodes without managed fields take much less memory.
	return nodes, nodes.SetTransform(program.WithoutManagedFields)
}
